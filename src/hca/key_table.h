// SPDX-License-Identifier: MIT
/* Keys: 32-bit lkey/rkey → what they cover. A key is index << 8 | variant; indices are handed out
 * next-fit and variants at random from 1..255 but for the index' last one, so a key's neighbour or
 * a stale key is not valid, and neither 0 nor the list end of receive WQEs (0x100) is ever one.
 * A memory window's variant is its tag, which its user chooses at each bind; index 0 is never one.
 * Locking: a spin guards the numbers; add, change and remove of one key are the caller's to
 * serialise. The entries stand in memory that the engine shares read-only with same-host peers
 * (they check a key of ours before a direct access), so they hold plain numbers only. Lookups run
 * inside a quiesce section and take no lock: an entry is published by its key field, stored last
 * with release (A) and loaded with acquire (A), and unpublished by storing 0 first. key_remove()
 * returns when no section of this process can still see the entry; peers are the business of the
 * hook. */
#pragma once
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include "hca/layout.h"

enum {
	KEY_DIRECT = 1, /* peers may reach the memory themselves: a flat range that nothing but
			   dereg and rereg revokes */
	KEY_WINDOW = 2, /* a memory window: bound and unbound from turns (key_rebind()) */
	KEY_BOUND = 4, /* of a window; without it no access is allowed */
	KEY_FREE = 8, /* of an indirect key: no access is allowed */
	KEY_SIGNATURE = 64, /* of an indirect key: its bytes are those on the wire */
	KEY_NULL = LAYOUT_NULL << LAYOUT_SHIFT, /* any address; reads at addr, writes at iova */
	KEY_LIST = LAYOUT_LIST << LAYOUT_SHIFT,
	KEY_INDIRECT = LAYOUT_INDIRECT << LAYOUT_SHIFT, /* made, changed and revoked from turns */
	KEY_QPN_SHIFT = 8, /* above: the only QP that may use the window, 0 any of the PD */
};

struct key_entry { /* 64 bytes: one cache line */
	uint32_t key; /* (A); 0: free */
	uint32_t pdn;
	uint32_t access; /* IBV_ACCESS_* */
	uint32_t flags; /* KEY_* */
	uint64_t iova; /* first address as work requests name it */
	uint64_t len; /* bytes */
	uint64_t addr; /* where iova lies in memory, or what the layout makes of it */
	uint64_t gen; /* counts changes of this entry: odd while being changed */
	uint64_t map_id; /* file that peers can map (docs/design/mapped-memory.md); 0: none */
	uint64_t map_off;
};

/* Why an access is refused, in the order of the checks. */
enum { KEY_DEPTH = 4 }; /* indirect keys on the way to a byte, at most */

enum key_verdict {
	KEY_OK,
	KEY_UNKNOWN, /* no such key */
	KEY_WRONG_PD,
	KEY_NO_RIGHT,
	KEY_RANGE,
	KEY_UNBOUND, /* a window that is not bound, an mkey that is free */
	KEY_WRONG_QP, /* a window that another QP has bound */
	KEY_BENEATH, /* an indirect key is made of a key that refuses */
	KEY_DEPTHS, /* more than KEY_DEPTH indirect keys on the way, or a circle of them */
	KEY_APART, /* allowed, but the bytes lie in several spans: key_span() */
	KEY_SIGNED, /* allowed, by way of the key's signature: key_signature(); no atomics */
};

/* Is the access allowed, though its bytes are no single span? */
static inline bool key_is_apart(enum key_verdict v)
{
	return v >= KEY_APART;
}

struct key_table;
struct key_table_hook {
	/* Called after an entry was unpublished and this process is quiet: returns when no peer is
	 * inside an access under @key any more. */
	void (*revoke)(void *arg, uint32_t key);
	void *arg;
};

/* @mem: zeroed memory of key_table_size(n) bytes, or NULL for private memory. */
int key_table_create(void *mem, uint32_t n, struct key_table **out);
void key_table_destroy(struct key_table *t);
size_t key_table_size(uint32_t n);
void key_table_set_hook(struct key_table *t, const struct key_table_hook *hook);

/* @e: all but key and gen. @obj: what the lookups return. ENOMEM: table full. */
int key_add(struct key_table *t, const struct key_entry *e, void *obj, uint32_t *key);
/* Changes an entry under its key (rereg); accesses in between are refused as unknown. */
int key_change(struct key_table *t, uint32_t key, const struct key_entry *e);
void key_remove(struct key_table *t, uint32_t key);
/* Gives the entry of a window or an mkey (the index of @key) other contents and the key @key. Does
 * not wait, so it may be called inside a turn: whoever looked the old key up before goes on with
 * what it read. */
void key_rebind(struct key_table *t, uint32_t key, const struct key_entry *e);

struct key_ask {
	uint32_t key, pdn;
	uint64_t va, len; /* bytes */
	unsigned int need; /* IBV_ACCESS_* bits, all of them; reading locally needs none */
	uint32_t qpn; /* the QP that asks, for windows */
};

/* What key_add() was given, or NULL: for a region by its key, for a window or an mkey by its key's
 * index, since its tag changes. Inside a quiesce section only. */
void *key_lookup_region(const struct key_table *t, uint32_t key);
void *key_lookup_index(const struct key_table *t, uint32_t index); /* a region by it alone */
void *key_lookup_window(const struct key_table *t, uint32_t key);
void *key_lookup_mkey(const struct key_table *t, uint32_t key);
/* Checks an access. len 0 is always KEY_OK: the specification looks at no key then, and *addr is 0.
 * Else *addr is the host address of va. An indirect key answers KEY_APART, and KEY_OK only for an
 * atomic, whose word lies in one place: pieces of its bytes go by the keys beneath. Of those only
 * the first byte's is asked; key_span() asks the others. Inside a quiesce section only. */
enum key_verdict key_check(const struct key_table *t, const struct key_ask *ask, uint64_t *addr);
/* Where the bytes of @ask begin, as far as they lie side by side, when key_check() has said
 * KEY_APART: the caller asks again for those behind them. *key is the one that covers them without
 * a layout of other keys: peers reach the memory under it. Other than KEY_OK: the key was removed
 * meanwhile, or a key beneath refuses. Inside the same quiesce section only. */
enum key_verdict key_span(const struct key_table *t, const struct key_ask *ask, struct span *out,
			  uint32_t *key);
/* Of a key that key_check() has found KEY_SIGNED: its layout, and as *off where @ask begins on the
 * wire. NULL: it was changed or removed meanwhile. Inside the same quiesce section only. */
struct mkey_layout;
const struct mkey_layout *key_signature(const struct key_table *t, const struct key_ask *ask,
					uint64_t *off);
/* Whether what @key covers may be revoked inside a turn, as a window's or an indirect key's bytes
 * are: who answers a READ by reference would have to be waited for. Inside a quiesce section
 * only. */
bool key_is_fleeting(const struct key_table *t, uint32_t key);
/* The entry of @key, copied once out of a table of @n entries that is mapped from a peer; false:
 * the key is not valid there. */
bool key_copy_foreign(const void *mem, uint32_t n, uint32_t key, struct key_entry *out);
/* The entry of @key as it is now; false: none. Inside a quiesce section only. */
bool key_copy(const struct key_table *t, uint32_t key, struct key_entry *out);
/* IBV_ACCESS_* as sentences call them: "LOCAL_WRITE|REMOTE_READ". Returns @buf. */
const char *key_rights(unsigned int access, char *buf, size_t n);
/* Writes what a refused check compared: "rkey 0x1a03 covers 0x7f…0000+4096 …; the range exceeds it
 * by 4096". Returns @buf. Inside a quiesce section only. */
const char *key_describe(const struct key_table *t, enum key_verdict v, const struct key_ask *ask,
			 char *buf, size_t n);
