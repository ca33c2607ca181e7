// SPDX-License-Identifier: MIT
#include "hca/alive.h"
#include <errno.h>
#include <inttypes.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>
#include "hca/device.h"
#include "obs/explain.h"
#include "obs/leaks.h"
#include "util/hash.h"
#include "util/spin.h"

enum { SHARDS = 32, RECENT = 32, NAME = 40 };

#define NONE SIZE_MAX /* the kind has no such member */

/* What the public structures have, and the words of sentences. */
static const struct kind {
	size_t context, handle, number; /* offsets; number: by which people know it */
	const char *name, *ended, *maker;
	int absent; /* errno where nothing is alive */
} kinds[ALIVE_KINDS] = {
// clang-format off
#define AT(type, member) offsetof(struct type, member)
	[ALIVE_CONTEXT] = { NONE, NONE, NONE,
			    "device context", "closed", "ibv_open_device", ENOENT },
	[ALIVE_PD] = { AT(ibv_pd, context), AT(ibv_pd, handle), AT(ibv_pd, handle),
		       "PD", "deallocated", "ibv_alloc_pd", ENOENT },
	[ALIVE_TD] = { AT(ibv_td, context), NONE, NONE,
		       "thread domain", "deallocated", "ibv_alloc_td", ENOENT },
	[ALIVE_MR] = { AT(ibv_mr, context), AT(ibv_mr, handle), AT(ibv_mr, lkey),
		       "MR", "deregistered", "ibv_reg_mr", ENOENT },
	[ALIVE_MW] = { AT(ibv_mw, context), AT(ibv_mw, handle), AT(ibv_mw, rkey),
		       "MW", "deallocated", "ibv_alloc_mw", ENOENT },
	[ALIVE_MKEY] = { NONE, NONE, AT(mlx5dv_mkey, lkey),
			 "mkey", "destroyed", "mlx5dv_create_mkey", ENOENT },
	[ALIVE_DM] = { AT(ibv_dm, context), AT(ibv_dm, handle), AT(ibv_dm, handle),
		       "DM", "freed", "ibv_alloc_dm", ENOENT },
	[ALIVE_BUFFER] = { NONE, NONE, NONE, "buffer", "freed", "ibv_alloc_buf", ENOENT },
	[ALIVE_AH] = { AT(ibv_ah, context), AT(ibv_ah, handle), NONE,
		       "AH", "destroyed", "ibv_create_ah", ENOENT },
	[ALIVE_CHANNEL] = { AT(ibv_comp_channel, context), NONE, NONE,
			    "completion channel", "destroyed", "ibv_create_comp_channel", EBADF },
	[ALIVE_CQ] = { AT(ibv_cq, context), AT(ibv_cq, handle), AT(ibv_cq, handle),
		       "CQ", "destroyed", "ibv_create_cq", ENOENT },
	[ALIVE_SRQ] = { AT(ibv_srq, context), AT(ibv_srq, handle), AT(ibv_srq, handle),
			"SRQ", "destroyed", "ibv_create_srq", ENOENT },
	[ALIVE_QP] = { AT(ibv_qp, context), AT(ibv_qp, handle), AT(ibv_qp, handle),
		       "QP", "destroyed", "ibv_create_qp", ENOENT },
	[ALIVE_WQ] = { AT(ibv_wq, context), AT(ibv_wq, handle), AT(ibv_wq, handle),
		       "WQ", "destroyed", "ibv_create_wq", ENOENT },
	[ALIVE_RWQ_TABLE] = { AT(ibv_rwq_ind_table, context), AT(ibv_rwq_ind_table, ind_tbl_handle),
			      AT(ibv_rwq_ind_table, ind_tbl_num), "indirection table",
			      "destroyed", "ibv_create_rwq_ind_table", ENOENT },
	[ALIVE_XRCD] = { AT(ibv_xrcd, context), NONE, NONE,
			 "XRC domain", "closed", "ibv_open_xrcd", ENOENT },
	[ALIVE_FLOW] = { AT(ibv_flow, context), AT(ibv_flow, handle), NONE,
			 "flow rule", "destroyed", "ibv_create_flow", ENOENT },
	[ALIVE_COUNTERS] = { AT(ibv_counters, context), NONE, NONE,
			     "counters", "destroyed", "ibv_create_counters", ENOENT },
	// clang-format on
};

/* Which public members name an object that another one is made of. */
static const struct part {
	enum alive_kind kind;
	size_t at;
} parts[] = {
	{ ALIVE_MR, AT(ibv_mr, pd) },	   { ALIVE_MW, AT(ibv_mw, pd) },
	{ ALIVE_AH, AT(ibv_ah, pd) },	   { ALIVE_CQ, AT(ibv_cq, channel) },
	{ ALIVE_SRQ, AT(ibv_srq, pd) },	   { ALIVE_QP, AT(ibv_qp, pd) },
	{ ALIVE_QP, AT(ibv_qp, send_cq) }, { ALIVE_QP, AT(ibv_qp, recv_cq) },
	{ ALIVE_QP, AT(ibv_qp, srq) },	   { ALIVE_WQ, AT(ibv_wq, pd) },
	{ ALIVE_WQ, AT(ibv_wq, cq) },
};

struct entry {
	uint64_t key, serial;
	const struct ibv_context *context;
	uint32_t handle, number;
	uint8_t kind; /* enum alive_kind */
	bool leaving; /* between alive_take() and alive_left() */
	uint64_t leak; /* leaks.h */
	const void *hidden[2]; /* objects that it is made of and no public member names; or NULL */
};

struct shard {
	struct spin lock; /* guards all of it */
	bool incomplete; /* there was no memory for an object that lives, or has lived */
	struct hash alive; /* key of an object → struct entry */
	uint64_t serials;
	struct recent { /* the last that ended */
		uint64_t key;
		uint32_t number;
		uint8_t kind;
	} recent[RECENT];
	uint32_t ended; /* how many, of all time */
} __attribute__((aligned(64)));

static struct shard shards[SHARDS];

/* Inverted, so that no leak checker takes the table for a user of the object. */
static uint64_t key_of(const void *obj)
{
	return ~(uint64_t)(uintptr_t)obj;
}

static struct shard *shard_of(const void *obj)
{
	uint64_t mixed = ((uintptr_t)obj >> 4) * UINT64_C(0x9e3779b97f4a7c15);

	return &shards[mixed >> 59];
}
_Static_assert(SHARDS == 1 << (64 - 59), "shard_of() takes so many bits");

static uint32_t number_at(const void *obj, size_t offset)
{
	return offset == NONE ? 0 : *(const uint32_t *)((const char *)obj + offset);
}

static const struct ibv_context *context_at(const void *obj, size_t offset)
{
	return offset == NONE ? NULL : *(struct ibv_context *const *)((const char *)obj + offset);
}

/* What a living object's members say. */
static struct entry entry_of(enum alive_kind kind, const void *obj)
{
	const struct kind *k = &kinds[kind];

	return (struct entry){ .context = context_at(obj, k->context),
			       .handle = number_at(obj, k->handle),
			       .number = number_at(obj, k->number),
			       .kind = (uint8_t)kind };
}

/* A context that stays open keeps no memory of anybody. */
static uint64_t leak_of(const struct entry *e)
{
	const struct kind *k = &kinds[e->kind];

	if (e->kind == ALIVE_CONTEXT)
		return 0;
	return leaks_made(e->context, k->name, k->number == NONE ? NULL : &e->number);
}

/* Under the lock. An entry that is there is of this object, or of one whose memory is freed and
 * whose alive_left() is still to come. False: @e is not needed, or not any more; it has the leak
 * that ends. */
static bool enter(struct shard *s, const void *obj, struct entry *e)
{
	struct entry *old, ends;

	e->key = key_of(obj);
	e->serial = ++s->serials;
	switch (hash_put(&s->alive, key_of(obj), e)) {
	case 0:
		return true;
	case EEXIST:
		old = hash_get(&s->alive, key_of(obj));
		ends = *old;
		*old = *e;
		*e = ends;
		return false;
	default:
		s->incomplete = true;
		return false;
	}
}

/* With the first context, so that how much memory the table has is no matter of addresses. What
 * fails here is tried again by enter(). */
static void begin(void)
{
	static char any;

	for (struct shard *s = shards; s < shards + SHARDS; s++) {
		spin_lock(&s->lock);
		if (!s->alive.size && !hash_put(&s->alive, key_of(&any), &any))
			hash_del(&s->alive, key_of(&any));
		spin_unlock(&s->lock);
	}
}

static void entry_free(struct entry *e)
{
	if (e)
		leaks_gone(e->leak);
	free(e);
}

void *alive_made(enum alive_kind kind, void *obj)
{
	struct shard *s = shard_of(obj);
	struct entry *e = malloc(sizeof(*e));
	bool used = false;

	if (kind == ALIVE_CONTEXT)
		begin();
	if (e) {
		*e = entry_of(kind, obj);
		e->leak = leak_of(e);
	}
	spin_lock(&s->lock);
	if (e)
		used = enter(s, obj, e);
	else
		s->incomplete = true;
	spin_unlock(&s->lock);
	if (!used)
		entry_free(e);
	return obj;
}

void *alive_made_of(enum alive_kind kind, void *obj, const void *one, const void *other)
{
	struct shard *s = shard_of(obj);
	struct entry *e;

	alive_made(kind, obj);
	spin_lock(&s->lock);
	e = hash_get(&s->alive, key_of(obj));
	if (e) {
		e->hidden[0] = one;
		e->hidden[1] = other;
	}
	spin_unlock(&s->lock);
	return obj;
}

/* --- sentences --- */

/* What was seen of an object that is refused, copied under the lock. */
struct seen {
	enum alive_kind kind; /* that the call takes */
	const void *obj;
	const char *call;
	bool there, was; /* something is alive there; or this kind was, of late */
	struct entry entry; /* there */
	struct entry now; /* what its members say, if it is of the kind */
	uint32_t number; /* was */
};

static void look_back(const struct shard *s, struct seen *out)
{
	uint32_t n = s->ended < RECENT ? s->ended : RECENT;

	for (uint32_t i = 1; i <= n && !out->was; i++) {
		const struct recent *r = &s->recent[(s->ended - i) % RECENT];

		out->was = r->key == key_of(out->obj) && r->kind == out->kind;
		out->number = r->number;
	}
}

/* "QP 0x812", or "AH", which has no number. */
static const char *name(enum alive_kind kind, uint32_t number, char out[NAME])
{
	if (kinds[kind].number == NONE)
		snprintf(out, NAME, "%s", kinds[kind].name);
	else
		snprintf(out, NAME, "%s 0x%x", kinds[kind].name, number);
	return out;
}

static int refuse_absent(const struct seen *s)
{
	const struct kind *k = &kinds[s->kind];
	char text[NAME];

	if (!s->obj)
		return refuse(EINVAL, "%s: the %s is NULL; pass what %s() returned", s->call,
			      k->name, k->maker);
	if (s->was)
		return refuse(k->absent,
			      "%s: the %s at %p is not alive: it was %s already (%s); forget the "
			      "pointer when the object ends",
			      s->call, k->name, s->obj, k->ended, name(s->kind, s->number, text));
	return refuse(k->absent,
		      "%s: the %s at %p is not alive: none was made there, or it was %s long ago; "
		      "pass what %s() returned",
		      s->call, k->name, s->obj, k->ended, k->maker);
}

static int refuse_seen(const struct seen *s)
{
	const struct kind *k = &kinds[s->kind];
	char text[NAME];

	if (!s->there)
		return refuse_absent(s);
	name(s->entry.kind, s->entry.number, text);
	if (s->entry.kind != s->kind)
		return refuse(EINVAL, "%s: no %s is at %p but %s; pass what %s() returned", s->call,
			      k->name, s->obj, text, k->maker);
	if (s->entry.leaving)
		return refuse(EBUSY, "%s: %s is being %s by another thread; let one thread do it",
			      s->call, text, k->ended);
	if (s->now.context != s->entry.context)
		return refuse(k->absent,
			      "%s: the member context of %s is %p, it was made with %p; leave it "
			      "alone",
			      s->call, text, (const void *)s->now.context,
			      (const void *)s->entry.context);
	if (s->now.handle != s->entry.handle)
		return refuse(k->absent,
			      "%s: the member handle of %s is 0x%x, it was made with 0x%x; leave "
			      "it alone",
			      s->call, text, s->now.handle, s->entry.handle);
	return refuse(EINVAL, "%s: %s is of another context; use objects of one context", s->call,
		      text);
}

/* --- looking up --- */

static bool same_file(const struct ibv_context *a, const struct ibv_context *b)
{
	return !a || !b || a == b ||
	       to_context((struct ibv_context *)a)->root ==
		       to_context((struct ibv_context *)b)->root;
}

/* Under the lock, so that no other thread frees what is alive. */
static bool fits(const struct entry *e, enum alive_kind kind, const void *obj,
		 const struct ibv_context *ctx)
{
	const struct kind *k = &kinds[kind];

	return e->kind == kind && !e->leaving && context_at(obj, k->context) == e->context &&
	       number_at(obj, k->handle) == e->handle && same_file(e->context, ctx);
}

/* @end: NULL, or it is taken. @ctx: NULL, or whose device file it must be of. */
static int look(enum alive_kind kind, const void *obj, const struct ibv_context *ctx,
		const char *call, struct alive_end *end)
{
	struct seen seen = { .kind = kind, .obj = obj, .call = call };
	struct shard *s = shard_of(obj);
	struct entry *e;
	bool good;

	spin_lock(&s->lock);
	e = hash_get(&s->alive, key_of(obj));
	if (e && e->leaving)
		good = e->kind == kind && !end;
	else
		good = e ? fits(e, kind, obj, ctx) : obj && s->incomplete;
	if (end)
		*end = (struct alive_end){ obj, e ? e->serial : 0 };
	if (good && end && e)
		e->leaving = true;
	if (!good && e) {
		seen.there = true;
		seen.entry = *e;
		seen.now = e->kind == kind && !e->leaving ? entry_of(kind, obj) : *e;
	} else if (!good) {
		look_back(s, &seen);
	}
	spin_unlock(&s->lock);
	return good ? 0 : refuse_seen(&seen);
}

int alive_check(enum alive_kind kind, const void *obj, const char *call)
{
	return look(kind, obj, NULL, call, NULL);
}

int alive_of(const struct ibv_context *ctx, enum alive_kind kind, const void *obj, const char *call)
{
	return obj ? look(kind, obj, ctx, call, NULL) : 0;
}

int alive_take(enum alive_kind kind, const void *obj, const char *call, struct alive_end *out)
{
	return look(kind, obj, NULL, call, out);
}

/* Under the lock. */
static void remember(struct shard *s, const void *obj, const struct entry *e)
{
	s->recent[s->ended++ % RECENT] = (struct recent){ key_of(obj), e->number, e->kind };
}

int alive_left(const struct alive_end *end, int err)
{
	struct shard *s = shard_of(end->obj);
	struct entry *e;

	spin_lock(&s->lock);
	e = hash_get(&s->alive, key_of(end->obj));
	if (e && e->serial != end->serial) /* another object has the memory by now */
		e = NULL;
	if (e && err)
		e->leaving = false;
	if (e && !err) {
		remember(s, end->obj, e);
		hash_del(&s->alive, key_of(end->obj));
	}
	spin_unlock(&s->lock);
	if (!err)
		entry_free(e);
	return err;
}

/* --- who uses it --- */

enum { USERS = 16 };
struct user {
	enum alive_kind kind;
	uint32_t number;
};

/* Under the lock: what is alive and not leaving can be read. */
static bool uses(const struct entry *e, const void *obj)
{
	const char *user = (const char *)(uintptr_t)~e->key;
	bool found = obj == e->hidden[0] || obj == e->hidden[1];

	if (e->leaving)
		return false;
	for (size_t i = 0; !found && i < sizeof(parts) / sizeof(parts[0]); i++)
		found = parts[i].kind == e->kind &&
			*(const void *const *)(user + parts[i].at) == obj;
	return found;
}

static unsigned int collect(const void *obj, struct user out[USERS])
{
	unsigned int n = 0;

	for (int i = 0; i < SHARDS; i++) {
		const struct entry *e;
		size_t pos = 0;

		spin_lock(&shards[i].lock);
		while ((e = hash_next(&shards[i].alive, &pos)))
			if (n < USERS && uses(e, obj))
				out[n++] = (struct user){ e->kind, e->number };
		spin_unlock(&shards[i].lock);
	}
	return n;
}

static int in_order(const void *a, const void *b)
{
	const struct user *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

const char *alive_users(const void *obj, char out[ALIVE_USERS])
{
	struct user user[USERS];
	unsigned int n = obj ? collect(obj, user) : 0, i;
	size_t at = 0;

	out[0] = 0;
	qsort(user, n, sizeof(user[0]), in_order);
	for (i = 0; i < n && at + NAME + 8 < ALIVE_USERS; i++) {
		char text[NAME];

		at += (size_t)snprintf(out + at, ALIVE_USERS - at, "%s%s", i ? ", " : " (",
				       name(user[i].kind, user[i].number, text));
	}
	if (n)
		snprintf(out + at, ALIVE_USERS - at, i < n ? ", ...)" : ")");
	return out;
}

void alive_fork_begin(void)
{
	for (int i = 0; i < SHARDS; i++)
		spin_lock(&shards[i].lock);
}

void alive_fork_end(void)
{
	for (int i = 0; i < SHARDS; i++)
		spin_unlock(&shards[i].lock);
}
