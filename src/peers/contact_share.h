// SPDX-License-Identifier: MIT
/* Memory of the peer that this process has mapped too (docs/design/mapped-memory.md). This process
 * asks on the connection for a key that it uses again and again (SHARE); the owner answers (SHARED)
 * with the file behind the key or says that there is none, and tells (UNSHARE) when it revokes the
 * key. A thread that uses a mapping has set a hazard and then read the key from the owner's page: a
 * mapping is valid for one generation of a key, and only while the owner is alive.
 *
 * Only a peer that may have our memory descriptor gets a file: it adds speed, never rights.
 *
 * Threads: contact_share_at() any, in a quiesce section; contact_unshare() any, outside; the rest
 * under host->control. */
#pragma once
#include "peers/contact_message.h"
#include "peers/host.h"
#include "peers/mapping.h"
#include "util/quiesce.h"

struct contact;

enum { SHARES = 256, SHARE_USES = 4 /* uses of a key before this process asks for it */ };

struct share_ask {
	uint32_t key;
	bool write;
	bool often; /* the key will be used often: it is asked for at once */
	uint64_t addr, len;
};

struct share { /* a key of the peer's; m is empty for a key without a file */
	uint32_t key;
	uint64_t gen, addr, len;
	struct mapping m;
	struct share *next; /* in shares.replaced */
	struct quiesce_grace grace;
};

struct shares {
	struct share_slot {
		struct share *share; /* (S) stored with release */
		uint32_t key, uses; /* the key that used this place last, and about how often */
	} theirs[SHARES];
	uint32_t ours[SHARES]; /* keys whose files the peer has */
	uint32_t wanted; /* the key to ask for, or that was asked for; 0: none */
	bool asked; /* SHARE for it has been sent */
	struct share *replaced; /* from which a thread may still be copying */
};

/* The address here of the owner's byte at ask->addr. NULL: not all bytes up to addr + len are
 * mapped here, or ask->write and they may not be written. @k: the key, read under its hazard. */
uint8_t *contact_share_at(struct contact *c, const struct share_ask *ask, const struct host_key *k);
void contact_share_ask(struct contact *c); /* asks for the key that contact_share_at() wants */
void contact_share_asked(struct contact *c, const struct share_message *m);
void contact_share_told(struct contact *c, const struct share_message *m, int fd); /* -1: none */
void contact_share_forget(struct contact *c, const struct share_message *m);
void contact_unshare(struct host *h, uint32_t key); /* a key of ours, unpublished already */
void contact_share_tend(struct contact *c, uint64_t now); /* ends those that were replaced */
void contact_share_end(struct contact *c); /* no thread uses @c any more */
