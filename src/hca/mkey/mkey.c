// SPDX-License-Identifier: MIT
#include "hca/mkey/mkey.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/fork.h"

#define FLAG(name) ((uint32_t)MLX5DV_MKEY_INIT_ATTR_FLAGS_##name)
#define SIGNABLE   FLAG(BLOCK_SIGNATURE)
#define BUILT	   (FLAG(INDIRECT) | SIGNABLE | FLAG(UPDATE_TAG) | FLAG(REMOTE_INVALIDATE))
#define MASK(bit)  ((uint64_t)MLX5_WQE_UMR_CTRL_MKEY_MASK_##bit)
#define KNOWN                                                                                      \
	(MASK(LEN) | MASK(START_ADDR) | MASK(SIG_ERR) | MASK(BSF_ENABLE) | MASK(MKEY) |            \
	 MASK(QPN) | MASK(ACCESS_LOCAL_WRITE) | MASK(ACCESS_REMOTE_READ) |                         \
	 MASK(ACCESS_REMOTE_WRITE) | MASK(ACCESS_ATOMIC) | MASK(FREE))

enum { ENTRIES_UNIT = 4, ENTRIES_MAX = 65532 };
#define SIGNED_MAX (1ULL << 56) /* bytes of memory: what is on the wire still has a number */

static const char call[] = "mlx5dv_create_mkey";

static int check(const struct mlx5dv_mkey_init_attr *attr)
{
	if (!attr->create_flags || (attr->create_flags & ~BUILT))
		return refuse(EOPNOTSUPP,
			      "%s: create_flags 0x%x; INDIRECT, BLOCK_SIGNATURE, UPDATE_TAG and "
			      "REMOTE_INVALIDATE work on this device (0x%x), and one must be set",
			      call, attr->create_flags, BUILT);
	if (attr->max_entries > ENTRIES_MAX)
		return refuse(EINVAL, "%s: max_entries %u exceeds %d; ask for fewer", call,
			      attr->max_entries, ENTRIES_MAX);
	return 0;
}

/* Complete but for its key: from key_add() on a peer may name it. */
static struct mkey *made(struct pd *pd, const struct mlx5dv_mkey_init_attr *attr)
{
	struct mkey *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	spin_init(&m->lock);
	spin_init(&m->found.lock);
	m->pd = pd;
	m->epoch = fork_epoch();
	m->flags = attr->create_flags;
	m->max_entries =
		(uint16_t)((attr->max_entries + ENTRIES_UNIT - 1U) / ENTRIES_UNIT * ENTRIES_UNIT);
	m->now.free = true;
	return m;
}

int mkey_create(struct pd *pd, struct mlx5dv_mkey_init_attr *attr, struct mkey **out)
{
	uint32_t *count = &pd->ctx->hca->count.mr;
	struct key_entry e = { .pdn = pd->pdn, .flags = KEY_INDIRECT | KEY_FREE };
	struct mkey *m;
	int err = pd_use(pd, call);

	err = err ? err : check(attr);
	err = err ? err : device_take(count, LIMIT_MR, call);
	if (err)
		return err;
	m = made(pd, attr);
	err = m ? key_add(pd->ctx->hca->keys, &e, m, &m->now.key)
		: refuse(ENOMEM, "%s: no memory; raise the limit (ulimit -v)", call);
	if (err) {
		free(m);
		device_give(count);
		return err;
	}
	attr->max_entries = m->max_entries;
	m->dv = (struct mlx5dv_mkey){ .lkey = m->now.key, .rkey = m->now.key };
	pd_get(pd);
	*out = m;
	return 0;
}

static void free_all(struct mkey_layout *l)
{
	while (l) {
		struct mkey_layout *next = l->next;

		free(l);
		l = next;
	}
}

int mkey_destroy(struct mkey *m)
{
	struct hca *hca = m->pd->ctx->hca;

	if (fork_is_ours(m->epoch)) {
		spin_lock(&m->lock);
		m->dead = true; /* no turn publishes the key again */
		spin_unlock(&m->lock);
		key_remove(hca->keys, m->now.key);
		device_give(&hca->count.mr);
		free_all(m->now.layout);
		free_all(m->old);
		free_all(m->newly);
	}
	pd_put(m->pd);
	free(m);
	return 0;
}

/* Under the lock. Frees what no other thread can see, and begins to wait for the rest; this
 * thread, which is between two accesses, sees none of it. */
static void retire(struct mkey *m, struct mkey_layout *l)
{
	if (l) {
		l->next = m->newly;
		m->newly = l;
	}
	if (m->old && quiesce_passed(&m->grace)) {
		free_all(m->old);
		m->old = NULL;
	}
	if (!m->old && m->newly && quiesce_begin(&m->grace)) {
		m->old = m->newly;
		m->newly = NULL;
	}
}

/* Under the lock */
static void publish(struct key_table *keys, struct mkey *m, const struct mkey_state *next)
{
	struct mkey_layout *before = m->now.layout;
	struct key_entry e = { .pdn = m->pd->pdn,
			       .access = next->access,
			       .flags = KEY_INDIRECT | (next->free ? KEY_FREE : 0) |
					(next->is_signed ? KEY_SIGNATURE : 0),
			       .iova = next->start,
			       .len = next->is_signed ? sig_wire_len(&next->sig, next->len)
						      : next->len,
			       .addr = (uintptr_t)next->layout };

	key_rebind(keys, next->key, &e);
	m->now = *next;
	retire(m, before == next->layout ? NULL : before);
}

static void change_right(struct mkey_state *s, const struct umr *u, uint64_t bit,
			 unsigned int right)
{
	if (u->mask & bit)
		s->access = (s->access & ~right) | (u->access & right);
}

/* What @u makes of the mkey's state; its layout comes from elsewhere. */
static struct mkey_state changed(const struct mkey *m, const struct umr *u)
{
	struct mkey_state s = m->now;

	change_right(&s, u, MASK(ACCESS_LOCAL_WRITE), IBV_ACCESS_LOCAL_WRITE);
	change_right(&s, u, MASK(ACCESS_REMOTE_READ), IBV_ACCESS_REMOTE_READ);
	change_right(&s, u, MASK(ACCESS_REMOTE_WRITE), IBV_ACCESS_REMOTE_WRITE);
	change_right(&s, u, MASK(ACCESS_ATOMIC), IBV_ACCESS_REMOTE_ATOMIC);
	if (u->mask & MASK(START_ADDR))
		s.start = u->start;
	if (u->mask & MASK(LEN))
		s.len = u->len;
	if (u->mask & MASK(FREE))
		s.free = u->free;
	if (u->mask & MASK(BSF_ENABLE)) {
		s.is_signed = u->is_signed;
		s.sig = u->brings_sig ? u->sig : s.sig;
	}
	if (u->mask & MASK(MKEY))
		s.key = (s.key & ~0xffU) | u->variant;
	return s;
}

/* A text that lives until this thread's next. */
__attribute__((format(printf, 1, 0))) static const char *
numbers(const char *fmt, unsigned long long is, unsigned long long may)
{
	static __thread char text[128] __attribute__((tls_model("initial-exec")));

	snprintf(text, sizeof(text), fmt, is, may);
	return text;
}

static const char *wrong_mkey(const struct mkey *m, const struct umr *u, uint32_t pdn)
{
	if (!m || m->dead || m->now.key != u->mkey)
		return "there is no such mkey; it was never created or is destroyed";
	if (m->pd->pdn != pdn)
		return "the mkey belongs to another PD than the queue pair; create it in that PD";
	if (u->mask & ~KNOWN)
		return "it changes what is not built; leave out those bits of mkey_mask";
	if ((u->mask & MASK(QPN)) && u->qpn != 0xffffff)
		return "it ties the mkey to one queue pair, which is not built";
	if ((u->mask & MASK(MKEY)) && !(m->flags & FLAG(UPDATE_TAG)))
		return "it changes the mkey's low 8 bits; create the mkey with UPDATE_TAG";
	if ((u->brings_sig || (u->mask & MASK(BSF_ENABLE) && u->is_signed)) &&
	    !(m->flags & SIGNABLE))
		return "it brings a signature; create the mkey with BLOCK_SIGNATURE";
	if (u->brings_sig && !(u->mask & MASK(BSF_ENABLE) && u->is_signed))
		return "it brings a signature that it does not enable; set the bit BSF_ENABLE of "
		       "mkey_mask and of flags_pd";
	if ((u->flags & MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE) && !m->now.free)
		return "the mkey is in use, and the request asks for a free one; invalidate it";
	if (u->listed && u->nparts > m->max_entries)
		return numbers("its list has %llu entries, the mkey's max_entries is %llu; create "
			       "the mkey with more",
			       u->nparts, m->max_entries);
	return NULL;
}

static const char *wrong_state(const struct mkey_state *s)
{
	if (!s->key)
		return "it makes 0 of the mkey; give it another key";
	if (!s->free && !s->layout)
		return "the mkey has no list yet; give it one first";
	if (s->layout && s->len > s->covers)
		return numbers("its length of %llu B exceeds the %llu B of its list; list more, or "
			       "make it shorter",
			       s->len, s->covers);
	if (s->is_signed && s->len > SIGNED_MAX)
		return "it is longer than a signature can count; make it shorter";
	return NULL;
}

static struct mkey_layout *copied(const struct mkey_layout *l)
{
	size_t size = sizeof(*l) + l->n * sizeof(l->part[0]);
	struct mkey_layout *c = malloc(size);

	if (c) {
		memcpy(c, l, size);
		c->next = NULL;
	}
	return c;
}

/* Under the lock. @next has the layout @l, or that which it had if @l is NULL. One layout says all
 * that an access by a signature needs, so a change of either makes a new one. */
static const char *lay(const struct mkey *m, struct mkey_state *next, struct mkey_layout *l)
{
	if (!l && next->layout && (next->is_signed || m->now.is_signed)) {
		l = copied(next->layout);
		if (!l)
			return "there is no memory for its list; raise the limit (ulimit -v)";
	}
	if (!l)
		return NULL;
	l->sig = next->sig;
	l->mem = next->len;
	next->layout = l;
	return NULL;
}

/* Under the lock. @l: the new layout, or NULL; taken over when it returns NULL. */
static const char *change(struct key_table *keys, struct mkey *m, const struct umr *u,
			  struct mkey_layout *l, uint64_t covers)
{
	struct mkey_state next = changed(m, u);
	struct mkey_layout *before = l ? l : next.layout;
	const char *why;

	next.covers = l ? covers : next.covers;
	why = lay(m, &next, l);
	why = why ? why : wrong_state(&next);
	if (!why)
		publish(keys, m, &next);
	else if (next.layout != before)
		free(next.layout);
	return why;
}

static const char *layout_from(const struct umr *u, struct mkey_layout **out, uint64_t *covers)
{
	struct mkey_layout *l = calloc(1, sizeof(*l) + u->nparts * sizeof(l->part[0]));
	const struct umr_part *part = u->read ? u->read : u->part;

	if (!l)
		return "there is no memory for its list; raise the limit (ulimit -v)";
	l->times = u->times;
	for (unsigned int i = 0; i < u->nparts; i++) {
		const struct umr_part *p = &part[i];

		if (p->len) /* zeros fill a list up */
			l->part[l->n++] = (struct mkey_part){
				.va = p->va, .len = p->len, .stride = p->stride, .key = p->key
			};
	}
	if (l->n && mkey_layout_seal(l, covers)) {
		*out = l;
		return NULL;
	}
	free(l);
	return "its list has no bytes, or more than 64 bits count; name some memory, and less";
}

static void rearm(struct mkey_found *f)
{
	spin_lock(&f->lock);
	f->disarmed = false;
	f->rest.n = 0;
	spin_unlock(&f->lock);
}

bool mkey_found(struct mkey *m, const struct sig_error *e)
{
	struct mkey_found *f = &m->found;
	bool first;

	spin_lock(&f->lock);
	first = !f->disarmed;
	f->disarmed = true;
	if (first && f->first.wrong == SIG_GOOD)
		f->first = *e;
	spin_unlock(&f->lock);
	return first;
}

struct sig_rest mkey_rest(struct mkey *m, const struct sig_rest *next)
{
	struct sig_rest r;

	spin_lock(&m->found.lock);
	if (next)
		m->found.rest = *next;
	r = m->found.rest;
	spin_unlock(&m->found.lock);
	return r;
}

int mkey_check(struct mkey *m, struct mlx5dv_mkey_err *out)
{
	static const enum mlx5dv_mkey_err_type types[] = {
		[SIG_GOOD] = MLX5DV_MKEY_NO_ERR,
		[SIG_GUARD] = MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD,
		[SIG_APP_TAG] = MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG,
		[SIG_REF_TAG] = MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG,
	};
	struct sig_error e;

	if (!(m->flags & SIGNABLE))
		return refuse(EINVAL,
			      "mlx5dv_mkey_check: mkey 0x%x was created without "
			      "MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE; create it with that",
			      m->dv.lkey);
	spin_lock(&m->found.lock);
	e = m->found.first;
	m->found.first = (struct sig_error){ 0 };
	spin_unlock(&m->found.lock);
	*out = (struct mlx5dv_mkey_err){
		.err_type = types[e.wrong],
		.err.sig = { .actual_value = e.actual,
			     .expected_value = e.expected,
			     .offset = e.offset },
	};
	return 0;
}

const char *mkey_umr(struct key_table *keys, const struct umr *u, uint32_t pdn)
{
	struct mkey *m = key_lookup_mkey(keys, u->mkey);
	struct mkey_layout *l = NULL;
	uint64_t covers = 0;
	const char *why;

	if (!m)
		return wrong_mkey(NULL, u, pdn);
	why = u->listed ? layout_from(u, &l, &covers) : NULL;
	if (why)
		return why;
	spin_lock(&m->lock);
	why = wrong_mkey(m, u, pdn);
	why = why ? why : change(keys, m, u, l, covers);
	spin_unlock(&m->lock);
	if (!why && u->mask & MASK(SIG_ERR))
		rearm(&m->found);
	if (why)
		free(l);
	return why;
}

static const char *not_invalid(const struct mkey *m, uint32_t key, uint32_t pdn, bool remote)
{
	if (m->dead || m->now.key != key)
		return "the key it invalidates is not an mkey's any more; use that of its last UMR";
	if (m->pd->pdn != pdn)
		return "the mkey it invalidates belongs to another PD; use a queue pair of that PD";
	if (remote && !(m->flags & FLAG(REMOTE_INVALIDATE)))
		return "the mkey it invalidates was created without REMOTE_INVALIDATE; add that "
		       "flag";
	if (m->now.free)
		return "the mkey it invalidates is free; set it up by a UMR first";
	return NULL;
}

const char *mkey_invalidate(struct key_table *keys, uint32_t key, uint32_t pdn, bool remote)
{
	struct mkey *m = key_lookup_mkey(keys, key);
	struct mkey_state next;
	const char *why;

	if (!m)
		return "the key it invalidates is neither a memory window's nor an mkey; only "
		       "those can be invalidated";
	spin_lock(&m->lock);
	why = not_invalid(m, key, pdn, remote);
	next = m->now;
	next.free = true;
	if (!why)
		publish(keys, m, &next);
	spin_unlock(&m->lock);
	return why;
}
