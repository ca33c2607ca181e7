// SPDX-License-Identifier: MIT
/* Memory of the peer that this process has mapped too (M23). A key that is used again and again is
 * asked for on the connection (SHARE); its owner answers (SHARED) with the file behind it or says
 * that there is none, and tells (UNSHARE) when the key goes. Who uses a mapping has set a hazard
 * and then read the key from what the owner publishes: a mapping is good for one generation of
 * a key, and only while the owner is alive.
 *
 * Only who may have our memory descriptor gets a file: it adds speed, never rights.
 *
 * Threads: contact_share_at() any, in a quiesce section; contact_unshare() any, outside; the rest
 * under host->control. */
#pragma once
#include "peers/contact_message.h"
#include "peers/host.h"
#include "peers/mapping.h"

struct contact;

enum { SHARES = 256, SHARE_USES = 4 /* of a key before it is asked for */ };

struct share_ask {
	uint32_t key;
	bool write;
	bool often; /* it will be used often: to be asked for at once */
	uint64_t addr, len;
};

struct share { /* a key of the peer's; @m: not made when it has no file */
	uint32_t key;
	uint64_t gen, addr, len;
	struct mapping m;
};

struct shares {
	struct share_slot {
		struct share *share; /* (S) stored with release */
		uint32_t key, uses; /* who would like this place: a guess */
	} theirs[SHARES];
	uint32_t ours[SHARES]; /* keys whose files the peer has */
	uint32_t wanted; /* a key to be asked for, or asked for; 0 none */
	bool asked;
};

/* Where the byte at the owner's @addr is here, when all from there to @addr + @len are (and may be
 * written, with @write); else NULL. @k: what @key is now. */
uint8_t *contact_share_at(struct contact *c, const struct share_ask *ask, const struct host_key *k);
void contact_share_ask(struct contact *c); /* sends what contact_share_at() would like to know */
void contact_share_asked(struct contact *c, const struct share_message *m);
void contact_share_told(struct contact *c, const struct share_message *m, int fd); /* -1: none */
void contact_share_forget(struct contact *c, const struct share_message *m);
void contact_unshare(struct host *h, uint32_t key); /* of ours; it is unpublished already */
void contact_share_end(struct contact *c); /* quiet */
