// SPDX-License-Identifier: MIT
/* Keys: 32-bit lkey/rkey → what they cover. A key is index << 8 | variant; indices are handed out
 * next-fit and variants at random from 1..255, never the index's last one again. So a guessed or
 * stale key is hardly ever valid, and neither 0 nor the list end of receive WQEs (0x100) is ever a
 * key. A memory window's variant is its tag, which its user chooses at each bind; so no window has
 * index 0.
 * Locking: a spin guards the numbers; add, change and remove of one key are the caller's to
 * serialise. The entries stand in memory that the engine shares read-only with same-host peers
 * (they check a key of ours before a direct access), so they contain numbers alone. Lookups run
 * inside a quiesce section and take no lock: an entry is published by its key field, stored last
 * with release (A) and loaded with acquire (A), and unpublished by storing 0 first. key_remove()
 * returns when no section of this process can still see the entry, and the hook, which waits for
 * peers, has returned. */
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
	KEY_SIGNATURE = 64, /* of an indirect key: it covers the bytes on the wire, with fields */
	KEY_NULL = LAYOUT_NULL << LAYOUT_SHIFT, /* any address; reads at addr, writes at iova */
	KEY_LIST = LAYOUT_LIST << LAYOUT_SHIFT,
	KEY_INDIRECT = LAYOUT_INDIRECT << LAYOUT_SHIFT, /* made, changed and revoked from turns */
	KEY_QPN_SHIFT = 8, /* bits above: the only QP that may use the window; 0: any of the PD */
};

struct key_entry { /* 64 bytes: one cache line */
	uint32_t key; /* (A); 0: free */
	uint32_t pdn;
	uint32_t access; /* IBV_ACCESS_* */
	uint32_t flags; /* KEY_* */
	uint64_t iova; /* first address as work requests name it */
	uint64_t len; /* bytes */
	uint64_t addr; /* where iova lies in memory; LIST, INDIRECT: address of the layout's data */
	uint64_t gen; /* counts changes of this entry: odd while being changed */
	uint64_t map_id; /* file that peers can map (docs/design/mapped-memory.md); 0: none */
	uint64_t map_off;
};

enum { KEY_DEPTH = 4 }; /* indirect keys on the way to a byte, at most */

/* Why an access is refused, in the order of the checks. */
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
	KEY_SIGNED, /* allowed, but the signature changes the bytes: key_signature(); no atomics */
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
/* @key is none until key_rebind() (rereg). When it returns nobody is inside an access under it, and
 * no thread has the object that it looked up by it. EINVAL: it is no key. */
int key_withdraw(struct key_table *t, uint32_t key);
void key_remove(struct key_table *t, uint32_t key);
/* Gives the entry of a window or an mkey (the index of @key), or of a key that is withdrawn, other
 * contents and the key @key. Does not wait, so it may be called inside a turn: a thread that has
 * looked the old key up goes on with the entry that it read. */
void key_rebind(struct key_table *t, uint32_t key, const struct key_entry *e);

struct key_ask {
	uint32_t key, pdn;
	uint64_t va, len; /* bytes */
	unsigned int need; /* IBV_ACCESS_* bits, all of them; reading locally needs none */
	uint32_t qpn; /* the QP that asks, for windows */
};

/* The @obj of key_add(), or NULL: a region is found by its key, a window or an mkey by its key's
 * index, since its tag changes. Inside a quiesce section only. */
void *key_lookup_region(const struct key_table *t, uint32_t key);
void *key_lookup_index(const struct key_table *t, uint32_t index); /* a region, by its index */
void *key_lookup_window(const struct key_table *t, uint32_t key);
void *key_lookup_mkey(const struct key_table *t, uint32_t key);
/* Checks an access. len 0 is always KEY_OK: the specification looks at no key then, and *addr is 0.
 * Else *addr is the host address of va. An indirect key answers KEY_APART, since its bytes are
 * reached by the keys beneath, and KEY_OK only for an atomic, whose word lies in one place. Of the
 * keys beneath only the first byte's is checked here; key_span() checks the others. Inside a
 * quiesce section only. */
enum key_verdict key_check(const struct key_table *t, const struct key_ask *ask, uint64_t *addr);
/* After KEY_APART of key_check(): the first bytes of @ask, as many as lie side by side; the caller
 * asks again for those behind them. *key: the key beneath that covers them with a layout of its
 * own, under which peers reach the memory. Other than KEY_OK: the key was removed meanwhile, or a
 * key beneath refuses. Inside the same quiesce section only. */
enum key_verdict key_span(const struct key_table *t, const struct key_ask *ask, struct span *out,
			  uint32_t *key);
/* After KEY_SIGNED of key_check(): the key's layout, and in *off the place of @ask on the wire.
 * NULL: the key was changed or removed meanwhile. Inside the same quiesce section only. */
struct mkey_layout;
const struct mkey_layout *key_signature(const struct key_table *t, const struct key_ask *ask,
					uint64_t *off);
/* May @key be revoked inside a turn, like that of a window or an mkey? Then a READ of it is not
 * answered by reference, since the revoking thread would have to wait for the peer that fetches.
 * Inside a quiesce section only. */
bool key_is_fleeting(const struct key_table *t, uint32_t key);
/* Copies the entry of @key once out of a table of @n entries that is mapped from a peer. False: the
 * key is not valid there. */
bool key_copy_foreign(const void *mem, uint32_t n, uint32_t key, struct key_entry *out);
/* The entry of @key as it is now; false: none. Inside a quiesce section only. */
bool key_copy(const struct key_table *t, uint32_t key, struct key_entry *out);
/* The text of IBV_ACCESS_* bits: "LOCAL_WRITE|REMOTE_READ". Returns @buf. */
const char *key_rights(unsigned int access, char *buf, size_t n);
/* Writes the numbers that a refused check compared: "rkey 0x1a03 covers 0x7f…0000+4096 …; the range
 * exceeds it by 4096". Returns @buf. Inside a quiesce section only. */
const char *key_describe(const struct key_table *t, enum key_verdict v, const struct key_ask *ask,
			 char *buf, size_t n);
