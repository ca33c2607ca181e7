// SPDX-License-Identifier: MIT
/* The messages of a contact's connection, for contact_ring.c. */
#pragma once
#include <stdint.h>

struct contact;
struct share_message;

enum contact_message {
	CONTACT_HELLO = 1,
	CONTACT_WELCOME,
	CONTACT_READY,
	CONTACT_ALIAS,
	CONTACT_YIELD,
	CONTACT_RING,
	CONTACT_FETCHES,
	CONTACT_SHARE, /* contact_share.h */
	CONTACT_SHARED,
	CONTACT_UNSHARE,
};

int contact_offer_ring(struct contact *c, uint32_t size, int fd); /* EAGAIN: the socket is full */
int contact_say_share(struct contact *c, enum contact_message kind, const struct share_message *m,
		      int fd); /* -1: none */
