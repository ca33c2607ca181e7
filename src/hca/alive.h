// SPDX-License-Identifier: MIT
/* Which objects of the program are alive. A kernel keeps a table of handles, so that a stale one is
 * an error and no crash; this is the same by the address that the program has. Each control verb
 * looks its objects up before it reads them; nothing of an object that is not alive is ever read.
 * Posting, polling and arming do not come here.
 *
 * What is looked up must be of the kind that the verb takes, and its members context and handle
 * those that it was made with: a kernel finds nothing by any others. ENOENT: nothing is alive there
 * (EBADF for a completion channel, which is a descriptor). EINVAL: NULL, or another kind is there,
 * or it is of another device file. EBUSY: another thread is destroying it, as this call would; to
 * other calls it is alive until that has come about, since a call that will be refused must not
 * disturb them. Each with its sentence, which says "destroyed already" as long as that is
 * remembered: the last RECENT of each shard.
 *
 * Any thread. The locks are leaves; sharded by address, a few hundred instructions each. Without
 * memory for the table, whatever it does not know is believed. A forked child has what its parent
 * had. A leak checker does not find objects by this table. */
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

/* @call: the program's call, for the sentence. */
int alive_check(enum alive_kind kind, const void *obj, const char *call);
/* The same of a further object, which must be of the device file of @ctx. NULL is fine: the call
 * itself knows whether it needs one. */
int alive_of(const struct ibv_context *ctx, enum alive_kind kind, const void *obj,
	     const char *call);

/* Around every function that ends an object: nobody else ends it in between. */
struct alive_end {
	const void *obj;
	uint64_t serial;
};
int alive_take(enum alive_kind kind, const void *obj, const char *call, struct alive_end *out);
/* @err: what that function has answered; unless it is 0 the object lives on. Returns @err. */
int alive_left(const struct alive_end *end, int err);

enum { ALIVE_USERS = 96 };
/* For the sentence of an EBUSY: " (MR 0x40, QP 0x812)", the living objects whose public members
 * name @obj, as many as fit; "" when none is known. Walks the whole table. Returns @out. */
const char *alive_users(const void *obj, char out[ALIVE_USERS]);

/* Around fork(): the table is whole in the child. */
void alive_fork_begin(void);
void alive_fork_end(void);
