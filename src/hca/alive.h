// SPDX-License-Identifier: MIT
/* Which objects of the program are alive. A kernel keeps a table of handles, so that a stale handle
 * is an error and not a crash; this is a table of the addresses that the program has. Each control
 * verb looks its objects up before it reads them; no member of an object that is not alive is ever
 * read. Posting, polling and arming do not use this table, but mlx5dv_wr_* do for the mkey that
 * they set up.
 *
 * An object must be of the kind that the verb takes, and its members context and handle must be
 * those that it was made with, as for a kernel. ENOENT: no object is alive at that address (EBADF
 * for a completion channel, which is a descriptor). EINVAL: NULL, or an object of another kind or
 * of another device file. EBUSY: this call would destroy the object, and another thread is doing
 * so; to other calls the object is alive until it is destroyed, since a destruction that is refused
 * must not disturb them. Each error has its sentence, which says "destroyed already" for the last
 * RECENT destroyed objects of each shard.
 *
 * Any thread. The table is sharded by address; each shard has a lock, a leaf, for a few hundred
 * instructions. If memory for the table was short, objects that it does not list count as alive. A
 * forked child has its parent's table. A leak checker does not find objects by this table. */
#pragma once
#include <infiniband/verbs.h>
#include <stdint.h>

enum alive_kind {
	ALIVE_CONTEXT,
	ALIVE_PD,
	ALIVE_TD,
	ALIVE_MR,
	ALIVE_MW,
	ALIVE_MKEY,
	ALIVE_DM,
	ALIVE_BUFFER,
	ALIVE_AH,
	ALIVE_CHANNEL,
	ALIVE_CQ,
	ALIVE_SRQ,
	ALIVE_QP,
	ALIVE_WQ,
	ALIVE_RWQ_TABLE,
	ALIVE_XRCD,
	ALIVE_FLOW,
	ALIVE_COUNTERS,
	ALIVE_KINDS
};

/* @obj is complete and about to be returned to the program. Returns @obj. */
void *alive_made(enum alive_kind kind, void *obj);
/* The same; its public members do not name @one and @other, of which it is made (or NULL). */
void *alive_made_of(enum alive_kind kind, void *obj, const void *one, const void *other);

/* @call: the program's call, for the sentence. */
int alive_check(enum alive_kind kind, const void *obj, const char *call);
/* The same for a further object of the call, which must be of the device file of @ctx. NULL is
 * fine: the call itself checks whether it needs the object. */
int alive_of(const struct ibv_context *ctx, enum alive_kind kind, const void *obj,
	     const char *call);

/* alive_take() and alive_left() stand around every function that ends an object: no other thread
 * ends it in between. */
struct alive_end {
	const void *obj;
	uint64_t serial;
};
int alive_take(enum alive_kind kind, const void *obj, const char *call, struct alive_end *out);
/* @err: the result of that function; unless it is 0 the object lives on. Returns @err. */
int alive_left(const struct alive_end *end, int err);

enum { ALIVE_USERS = 96 };
/* For the sentence of an EBUSY: " (MR 0x40, QP 0x812)", the living objects whose public members
 * name @obj, as many as fit; "" when none is known. Walks the whole table. Returns @out. */
const char *alive_users(const void *obj, char out[ALIVE_USERS]);

/* Around fork(): no shard is locked in the child. */
void alive_fork_begin(void);
void alive_fork_end(void);
