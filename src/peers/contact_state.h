// SPDX-License-Identifier: MIT
/* The state of a contact's handshake, and the step that the next message leads to, by the table of
 * contact_state.c, without I/O. Two processes that ask each other at the same time get one contact:
 * the asker with the lower slot goes on, and the other one answers it. Pure. */
#pragma once
#include <stdbool.h>
#include "peers/contact_message.h"

enum contact_state {
	CONTACT_CAME, /* the peer connected: HELLO is awaited */
	CONTACT_ASKED, /* we connected: HELLO has been sent, WELCOME is awaited */
	CONTACT_WELCOMED, /* the peer connected: WELCOME has been sent, READY is awaited */
	CONTACT_UP,
	CONTACT_RETIRED, /* ended here; the peer may still be inside an access to our memory */
	CONTACT_STATES,
};

enum contact_step {
	CONTACT_DO_REFUSE, /* the message breaks a rule, and ends the contact */
	CONTACT_DO_LEAVE, /* this connection is not needed */
	CONTACT_DO_WELCOME, /* HELLO: keep what it brought, answer WELCOME */
	CONTACT_DO_READY, /* WELCOME: keep what it brought, answer READY; the contact is up */
	CONTACT_DO_COMPLETE, /* READY: the contact is up */
	CONTACT_DO_ALIAS, /* say ALIAS, and leave */
	CONTACT_DO_YIELD, /* say YIELD, and leave */
	CONTACT_DO_ADOPT, /* ALIAS: the slot leads to the contact that is up; leave */
	CONTACT_DO_REFER, /* FETCHES: payloads may go by reference */
	CONTACT_DO_RING, /* RING: send into the new ring when the old one is full */
	CONTACT_DO_SHARE, /* one of the messages about a key */
	CONTACT_DO_SHOW, /* a tool: answer it, and leave */
	CONTACT_DO_WAKE, /* RUNG: the peer has written something */
	CONTACT_DO_VOUCH, /* CLAIM: say whether we have presented ourselves to it; leave */
};

/* What the host knows when a message comes. */
struct contact_facts {
	bool known; /* there is another contact with the process of that cookie already */
	bool asking; /* a handshake of our own is under way for the sender's slot */
	bool first; /* our slot is lower than the sender's */
};

struct contact_move {
	enum contact_step step;
	enum contact_state next; /* once the step is done */
};

/* @kind: any number that a peer sends. */
struct contact_move contact_move(enum contact_state now, uint32_t kind,
				 const struct contact_facts *f);
