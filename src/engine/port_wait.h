// SPDX-License-Identifier: MIT
/* UDP 4791 of an address may be held by another user, or by the kernel's rdma_rxe. While UD QPs
 * wait for datagrams by it, which say nothing that would make somebody look, it is tried again: a
 * second later, then after twice as long each time, up to eight. Nobody is woken otherwise.
 * Locking: node->wheel_lock; port_wait_run() may be called by any thread, outside any turn. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct node;

void port_wait_begin(struct node *n, uint64_t now); /* somebody needs a port that is held */
void port_wait_run(struct node *n, uint64_t now); /* a load unless the timer has fired */
