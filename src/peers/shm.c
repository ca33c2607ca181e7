// SPDX-License-Identifier: MIT
#include "peers/shm.h"
#include <errno.h>
#include <string.h>
#include "link/copy.h"
#include "peers/contact_ring.h"
#include "peers/host_names.h"
#include "peers/host_target.h"
#include "peers/ring_seg.h"
#include "util/quiesce.h"
#include "wire/opcode.h"

enum { SHORT = 2 * RING_LINE };

static bool by_reference(const struct dest *d, const struct seg *s)
{
	if (s->len <= d->inline_max || (s->flags & SEG_NO_REF) || !load_relaxed(&d->max_ref) ||
	    !s->npieces || s->npieces > RING_SEG_PIECES)
		return false;
	for (unsigned int i = 0; i < s->npieces; i++)
		if (!s->pieces[i].key)
			return false;
	return true;
}

/* The record at @rec but for its word. */
static int fill(struct contact *c, const struct seg *s, const struct ring_plan *plan, bool by_ref,
		uint8_t *rec)
{
	uint64_t word = ring_seg_encode(s, plan, by_ref, rec);
	int err = by_ref ? 0 : copy_payload(rec + plan->head, s);

	if (!err)
		ring_publish(&c->out.ring, word);
	return err;
}

/* A short record is put together outside the ring and stored at once: the consumer polls its first
 * line, and would take the line away between two stores that are far apart. */
static inline __attribute__((always_inline)) int fill_short(struct contact *c, const struct seg *s,
							    const struct ring_plan *plan,
							    bool by_ref, uint8_t *rec)
{
	uint64_t copy[SHORT / sizeof(uint64_t)], *to = (uint64_t *)(void *)rec, word;
	uint32_t body = by_ref ? s->npieces * (uint32_t)sizeof(struct piece) : s->len;
	unsigned int words = (plan->head + body + 7) / sizeof(*copy);
	int err = 0;

	copy[words - 1] = 0; /* the padding of the head and the body */
	copy[plan->head / sizeof(*copy) - 1] = 0;
	word = ring_seg_encode(s, plan, by_ref, (uint8_t *)copy);
	if (!by_ref)
		err = copy_payload((uint8_t *)copy + plan->head, s);
	if (err)
		return err;
	for (unsigned int i = 1; i < words; i++)
		to[i] = copy[i];
	ring_publish(&c->out.ring, word);
	return 0;
}

/* Under out_lock. */
static inline __attribute__((always_inline)) int
put_planned(struct contact *c, const struct seg *s, const struct ring_plan *plan, bool by_ref)
{
	uint8_t *rec;
	int err = ring_reserve(&c->out.ring, plan->bytes, &rec);

	if (err)
		return err;
	return plan->bytes <= SHORT ? fill_short(c, s, plan, by_ref, rec)
				    : fill(c, s, plan, by_ref, rec);
}

/* Under out_lock. */
static int put_record(struct contact *c, const struct seg *s, bool by_ref)
{
	struct ring_plan plan;

	ring_seg_plan(s, by_ref, &plan);
	return plan.bytes > RING_RECORD_MAX ? EINVAL : put_planned(c, s, &plan, by_ref);
}

/* An operation for which the peer's program need not poll: it may spin on its memory, or
 * compute. */
static bool one_sided(uint8_t op)
{
	uint32_t flags = opcodes[op].flags;

	return (flags & WIRE_REQUEST) && !(flags & WIRE_IMMDT) &&
	       ((flags & (WIRE_RETH | WIRE_ATOMICETH)) || opcode_operation(op) == OP_WRITE_MIDDLE ||
		opcode_operation(op) == OP_WRITE_LAST);
}

static void wake(struct contact *c)
{
	bool anyway = load_relaxed(&c->one_sided);

	if (unlikely(anyway))
		store_relaxed(&c->one_sided, false);
	contact_wake(c, anyway);
}

int shm_send_to(struct contact *c, const struct dest *d, const struct seg *s)
{
	int err;

	if (load_relaxed(&c->broken))
		return ENETUNREACH;
	spin_lock(&c->out_lock);
	err = put_record(c, s, by_reference(d, s));
	spin_unlock(&c->out_lock);
	if (likely(!err)) {
		if (one_sided(s->op))
			store_relaxed(&c->one_sided, true);
		if (!s->more)
			wake(c);
	} else if (err == EAGAIN) {
		contact_wake(c, false); /* a consumer that sleeps has not told its position */
	} else if (err == EPROTO) {
		contact_break(c, "it moved its position in the ring beyond ours");
	}
	return err == EPROTO ? ENETUNREACH : err;
}

/* What is not as it should be, shm_send() finds once more, and acts. */
static int shm_send_plain(struct dest *d, const struct seg *s)
{
	struct target *t = to_target(d);
	struct ring_plan plan;
	int err;

	if (unlikely(load_acquire(&t->state) != TARGET_UP || load_relaxed(&t->c->broken)))
		return EAGAIN;
	ring_seg_plan_plain(s, &plan);
	spin_lock(&t->c->out_lock);
	err = put_planned(t->c, s, &plan, false);
	spin_unlock(&t->c->out_lock);
	return err;
}

static int send_grh(struct target *t, const struct seg *s)
{
	struct seg with = *s;
	uint8_t grh[GRH_LEN] = { 0 };

	if (t->host->cfg.make_grh)
		t->host->cfg.make_grh(t->host->cfg.arg, s, grh, &with.l3);
	with.grh = grh;
	return shm_send_to(t->c, &t->d, &with);
}

static int try_send(struct target *t, const struct seg *s)
{
	switch (load_acquire(&t->state)) { /* pairs with host_target_settle() */
	case TARGET_UP:
		return unlikely(s->av && !s->grh) ? send_grh(t, s) : shm_send_to(t->c, &t->d, s);
	case TARGET_DEAD:
		return ENETUNREACH;
	default:
		return EAGAIN;
	}
}

bool shm_can_go_on(struct target *t)
{
	bool yes = true;

	quiesce_enter();
	switch (load_acquire(&t->state)) {
	case TARGET_UP:
		yes = load_relaxed(&t->c->broken) || contact_has_space(t->c);
		break;
	case TARGET_DEAD:
		break;
	default:
		yes = false;
	}
	quiesce_exit();
	return yes;
}

/* False: there is space meanwhile, and @w is not on the list. */
static bool wait_for_space(struct target *t, struct waiter *w)
{
	host_wait_add(&t->waiters, w);
	host_resume_later(t->host, t->slot);
	full_fence(); /* the consumer may have signalled before @w was on the list */
	return !shm_can_go_on(t) || !host_wait_remove(&t->waiters, w);
}

/* Each round needs records that the peer has taken meanwhile (ring_moved_on()): there are few. */
static int shm_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	struct target *t = to_target(d);
	int err;

	quiesce_enter();
	do
		err = try_send(t, s);
	while (unlikely(err == EAGAIN) && w && !wait_for_space(t, w));
	quiesce_exit();
	return err;
}

static void shm_flush(struct dest *d)
{
	struct target *t = to_target(d);

	quiesce_enter();
	if (load_acquire(&t->state) == TARGET_UP)
		wake(t->c);
	quiesce_exit();
}

static int shm_fetch(struct dest *from, const struct seg *s, uint32_t skip, const struct piece *dst,
		     unsigned int ndst)
{
	struct target *t = to_target(from);
	int err = EREMOTEIO;

	quiesce_enter();
	if (load_acquire(&t->state) == TARGET_UP)
		err = shm_fetch_from(t->c, s, skip, dst, ndst);
	quiesce_exit();
	return err;
}

static int shm_direct(struct dest *d, struct direct_ask *ask)
{
	struct target *t = to_target(d);
	int err = EAGAIN;

	quiesce_enter();
	if (load_acquire(&t->state) == TARGET_UP)
		err = shm_direct_to(t->c, ask);
	quiesce_exit();
	return err;
}

static bool shm_taken(struct dest *d, struct link_mark *mark)
{
	struct target *t = to_target(d);
	bool yes = false;

	quiesce_enter();
	if (load_acquire(&t->state) == TARGET_UP)
		yes = contact_has_taken(t->c, mark);
	quiesce_exit();
	return yes;
}

static void shm_cancel(struct dest *d, struct waiter *w)
{
	host_wait_cancel(&to_target(d)->waiters, w);
}

static void shm_put(struct dest *d)
{
	host_target_put(to_target(d));
}

static void shm_silence(struct dest *d, struct link_silence *out)
{
	const struct target *t = container_of(d, struct target, d);

	if (load_acquire(&t->state) != TARGET_DEAD)
		return;
	out->ended = t->cookie;
	out->pid = t->pid;
	out->unreached = t->cookie ? 0 : t->error;
	if (out->unreached != ECONNREFUSED)
		return;
	out->layout = host_names_foreign_layout(t->slot);
	if (!out->layout && load_relaxed(&t->layout) > 0)
		out->layout = (unsigned int)load_relaxed(&t->layout);
}

const struct link_ops shm_ops = {
	.name = "shm",
	.send = shm_send,
	.send_plain = shm_send_plain,
	.flush = shm_flush,
	.fetch = shm_fetch,
	.direct = shm_direct,
	.taken = shm_taken,
	.silence = shm_silence,
	.cancel = shm_cancel,
	.put = shm_put,
};
