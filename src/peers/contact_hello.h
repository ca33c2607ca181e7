// SPDX-License-Identifier: MIT
/* The handshake. The asker sends HELLO, the asked one WELCOME, both with their page and inbound
 * ring, and within one user with mail page and tables; then the asker sends READY. FETCHES, once
 * both have proved that they reach each other's memory, brings the doorbell. A descriptor of our
 * memory is lent (SOFTHCA_DIRECT=1) only to a process that is in host->contact[] already, by
 * WELCOME or READY, so that host_revoke() sees the hazards of every process that may reach our
 * memory. The bytes of a message (contact_message.h), the step that it leads to (contact_state.h)
 * and what a peer may have (contact_trust.h) are decided elsewhere: this file acts. Under
 * host->control. */
#pragma once
#include <stdint.h>

struct contact;
struct host;
struct target;

/* Begins a contact with the process in the slot of @t, or goes on with one that the process has not
 * taken notice of yet (contact_put_off()). ECONNREFUSED: no process has it; EAGAIN: try
 * again later; or another errno. */
int contact_ask(struct host *h, struct target *t, uint64_t now);
/* A peer has connected to our slot; @conn is the contact's from now on. Under names_lock since it
 * was accepted. */
void contact_accept(struct host *h, unsigned int slot, int conn, uint64_t now);
/* Sends FETCHES once both have proved it, or comes back if it cannot leave now. */
void contact_tell(struct contact *c, uint64_t now);
