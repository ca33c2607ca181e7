// SPDX-License-Identifier: MIT
/* The messages of a contact's connection: the bytes of one, and its fields. All are of one length
 * and in the byte order of the host; descriptors travel beside them (contact_talk.h).
 *
 *	0 magic · 4 layout · 8 kind · 12 slot · 16 cookie · 24 its address · 32 generation ·
 *	36 keys · 40 their bytes · 48 ring · 52 mail bit · 56 offers · 60 trusts ·
 *	64 key · 68 found · 72 its generation · 80 device · 88 inode · 96 offset · 104 length ·
 *	112 address of the secret · 120 nonce · 128 echo · 136 proof
 *
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "peers/mapping.h"

enum { CONTACT_MESSAGE_LEN = 144 };

enum contact_kind {
	CONTACT_HELLO = 1, /* the asker presents itself: page, mail page, ring */
	CONTACT_WELCOME, /* the asked one does; with its memory descriptor if that is lent */
	CONTACT_READY, /* the asker's mail bit, and the descriptor of its memory if that is lent */
	CONTACT_ALIAS, /* the two have a contact already, by another slot */
	CONTACT_YIELD, /* the sender drops this connection: its own HELLO goes first */
	CONTACT_RING, /* a larger ring is offered: its descriptor, ring_size */
	CONTACT_FETCHES, /* the sender reads the receiver's memory, and brings its doorbell; trusts
			    says whether it knows of the reverse */
	CONTACT_SHARE, /* contact_share.h */
	CONTACT_SHARED,
	CONTACT_UNSHARE,
	CONTACT_SHOW, /* a tool asks what the process does; the answer has a descriptor */
	CONTACT_RUNG, /* rings the receiver, whose doorbell the sender does not have */
	CONTACT_CLAIM, /* a peer claims the receiver's slot: is that message its own? */
	CONTACT_CLAIMED, /* it is */
};

/* SHARE, SHARED, UNSHARE: a key, and the file behind it. */
struct share_message {
	uint32_t key, found;
	uint64_t gen;
	struct mapping_file file;
};

struct contact_message {
	uint32_t kind; /* enum contact_kind, or anything else that a peer sends */
	uint32_t slot; /* the sender's first */
	uint64_t cookie, cookie_addr; /* of the sender's page; address 0: to a stranger */
	uint32_t gen; /* of the sender's page */
	uint32_t n_keys; /* of the sender's key table */
	uint64_t key_bytes;
	uint32_t ring_size; /* bytes of data */
	uint32_t mail_bit; /* the receiver's in the sender's mail page */
	uint32_t offers; /* the receiver may try to open the sender's memory */
	uint32_t trusts; /* the receiver has proved that it does: the sender heeds its hazards */
	struct share_message share;
	uint64_t secret_addr; /* where in the sender's memory the receiver finds its proof */
	uint64_t nonce, echo; /* the sender's nonce; the receiver's nonce, repeated */
	uint64_t proof; /* the receiver's secret, as the sender has read it; 0: it has not */
};

void contact_message_encode(const struct contact_message *m, uint8_t out[CONTACT_MESSAGE_LEN]);
/* EPROTO: another length, another magic, or another version of what is shared. */
int contact_message_decode(const uint8_t *in, size_t len, struct contact_message *out);
/* HELLO, WELCOME: are slot and mail bit in range, and is its key table large enough for the keys
 * that it counts? Its entries are as large as ours, of which @n_keys take @key_bytes. */
bool contact_message_presents(const struct contact_message *m, uint32_t n_keys, uint64_t key_bytes);
