// SPDX-License-Identifier: MIT
/* The doorbell of this process: the descriptor that wakes it, the mode word that tells senders
 * whether to ring, and the chores that it rings itself for. Any thread. */
#pragma once

struct host;

void host_chore(struct host *h); /* host_control() is to run soon */
/* From now on senders mark in our mail page which ring has records, since there are many rings. */
void host_use_mail(struct host *h);
