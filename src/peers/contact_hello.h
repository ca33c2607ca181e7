// SPDX-License-Identifier: MIT
/* The handshake. The asker sends HELLO, the asked one WELCOME, both with their page, mail page,
 * inbound ring and doorbell; then the asker sends READY. A memory descriptor is sent only to a
 * process that is in host->contact[] already, so that host_revoke() sees the hazards of every
 * process that may reach our memory: by WELCOME, or by READY. What a message is
 * (contact_message.h), what is done about it (contact_state.h) and who may have what
 * (contact_trust.h) are decided elsewhere: this is the part that acts. Under host->control. */
#pragma once
#include <stdint.h>

struct host;
struct target;

/* Begins a contact with the process in the slot of @t. ECONNREFUSED: no process has it; EAGAIN:
 * later; or another errno. */
int contact_ask(struct host *h, struct target *t, uint64_t now);
/* A peer has connected to our slot; @conn is the contact's from now on. */
void contact_accept(struct host *h, unsigned int slot, int conn, uint64_t now);
