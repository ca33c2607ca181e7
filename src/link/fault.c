// SPDX-License-Identifier: MIT
#include "link/fault.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "link/fault_live.h"
#include "link/parcel.h"
#include "link/seg_pkt.h"
#include "util/be.h"
#include "util/clock.h"
#include "util/rand.h"
#include "util/spin.h"
#include "wire/aeth.h"
#include "wire/icrc.h"
#include "wire/ip.h"

enum { MAX_SEG = 4096, ROUTED_BYTE = 4, FLIPS = 3 };
#define REORDER_NS UINT64_C(100000) /* delay of a segment that others are to overtake */
#define AGAIN_NS   UINT64_C(50000) /* pause when the link had no room for a delayed segment */
#define LEAVE_NS   UINT64_C(1000000000) /* exit() waits so long for room */
#define QUEUE_MAX  4096 /* delayed segments of a destination; with more the first leaves early */

struct fault_dice {
	struct spin lock; /* guards the rest */
	struct fault_config cfg;
	struct rand rand;
	uint64_t index; /* number of the dice; added to the seed */
	uint32_t seen; /* number of the live settings; see fault_live_changed() */
	uint64_t hits; /* segments that cfg has picked */
};

struct fault {
	struct dest d; /* d.inner: the destination that it wraps */
	struct fault_dice own, *dice; /* dice: own, or those of several destinations */
	struct spin lock; /* guards the queue */
	struct list queue; /* of delayed segments, by time; each has a reference to d */
	uint32_t queued; /* delayed segments */
	uint64_t pause; /* ns: none of them leaves before, since the link had no room */
	struct spin out; /* one thread sends: delayed segments leave without the QP's turn */
	struct list all; /* node in everyone; under all_lock */
};

uint32_t fault_queued;
static struct fault_counts counts;
static struct list everyone = { &everyone, &everyone };
static struct spin all_lock; /* guards everyone; a fault that is listed is not freed */
static uint32_t wrapped;
static struct {
	void (*fn)(void *arg);
	void *arg;
} begun; /* fault_when_delayed() */
static bool leaving; /* exit(): no delay counts any more */

static struct fault *to_fault(struct dest *d)
{
	return container_of(d, struct fault, d);
}

static void count(uint64_t *n)
{
	fetch_add_relaxed(n, 1);
}

void fault_count(struct fault_counts *out)
{
	const uint64_t *from = (const uint64_t *)&counts;
	uint64_t *to = (uint64_t *)out;

	for (unsigned int i = 0; i < sizeof(counts) / sizeof(*to); i++)
		to[i] = load_relaxed(&from[i]);
}

static bool happens(struct fault *f, double p)
{
	bool yes;

	if (p <= 0)
		return false;
	spin_lock(&f->dice->lock);
	yes = rand_chance(&f->dice->rand, p);
	spin_unlock(&f->dice->lock);
	return yes;
}

static uint64_t below(struct fault *f, uint64_t n)
{
	uint64_t v;

	spin_lock(&f->dice->lock);
	v = rand_below(&f->dice->rand, n);
	spin_unlock(&f->dice->lock);
	return v;
}

/* The packet that the udp link would send, from the IP header to the ICRC. */
static size_t build(const struct seg *s, uint8_t *buf, size_t cap)
{
	struct pkt p;
	uint8_t *udp = buf + IP4_LEN;
	size_t len;
	uint32_t crc;

	seg_to_pkt(s, &p);
	p.payload = s->data;
	if (wire_build(&p, udp + UDP_LEN, cap - IP4_LEN - UDP_LEN, &len))
		return 0;
	memset(buf, 0, IP4_LEN + UDP_LEN);
	put_be16(udp + 2, UDP_ROCE_PORT);
	put_be16(udp + 4, (uint16_t)(UDP_LEN + len));
	len += IP4_LEN + UDP_LEN;
	buf[0] = 0x45;
	put_be16(buf + 2, (uint16_t)len);
	buf[9] = 17;
	if (icrc_packet(buf, len, &crc))
		return 0;
	icrc_put(buf + len - ICRC_LEN, crc);
	return len;
}

/* Flips up to FLIPS different bits of the packet, none that routers may change. */
static void damage(struct fault *f, uint8_t *buf, size_t len)
{
	size_t bits = (len - IP4_LEN - UDP_LEN) * 8, first = below(f, bits);
	uint64_t n = 1 + below(f, FLIPS);

	for (uint64_t i = 0; i < n; i++) {
		size_t bit = (first + i * 11) % bits;

		if (bit / 8 == ROUTED_BYTE)
			bit += 8;
		buf[IP4_LEN + UDP_LEN + bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/* Does the ICRC find what is flipped in @s? True: also when there is no memory to see it. */
static bool is_noticed(struct fault *f, const struct seg *s)
{
	uint8_t buf[IP4_LEN + UDP_LEN + WIRE_HEADERS_MAX + MAX_SEG + 64];
	struct parcel *p;
	uint32_t crc;
	size_t len;

	if (parcel_make(s, true, &p))
		return true;
	len = build(&p->seg, buf, sizeof(buf));
	parcel_free(p);
	if (!len)
		return true;
	damage(f, buf, len);
	return icrc_packet(buf, len, &crc) || crc != icrc_get(buf + len - ICRC_LEN);
}

static int pass(struct fault *f, const struct seg *s, struct waiter *w)
{
	int err;

	spin_lock(&f->out);
	err = dest_send(f->d.inner, s, w);
	spin_unlock(&f->out);
	return err;
}

static struct parcel *first(const struct fault *f)
{
	return list_empty(&f->queue) ? NULL : list_first_entry(&f->queue, struct parcel, node);
}

/* @p, which was the first of the queue, has left or is lost. Under f->out. */
static void done(struct fault *f, struct parcel *p)
{
	spin_lock(&f->lock);
	list_del(&p->node);
	f->queued--;
	spin_unlock(&f->lock);
	fetch_sub_acq_rel(&fault_queued, 1);
	parcel_free(p);
	f->d.ops->put(&f->d); /* the segment's reference; the caller has one, too */
}

static struct parcel *first_if_full(struct fault *f)
{
	struct parcel *p;

	spin_lock(&f->lock);
	p = f->queued >= QUEUE_MAX ? first(f) : NULL;
	spin_unlock(&f->lock);
	return p;
}

/* A full queue waits for the link, as a full link does, and loses nothing: its first segment leaves
 * before its time. EAGAIN: the link has no room for it either, and @w is on its waiting list. */
static int make_room(struct fault *f, struct waiter *w)
{
	struct parcel *p;
	int err = 0;

	if (likely(!first_if_full(f)))
		return 0; /* not behind the thread that sends what is due */
	spin_lock(&f->out);
	p = first_if_full(f);
	if (p)
		err = dest_send(f->d.inner, &p->seg, w);
	if (p && err != EAGAIN)
		done(f, p);
	spin_unlock(&f->out);
	return err == EAGAIN ? EAGAIN : 0;
}

/* Searched from the end: a segment is the last, but for those that it overtakes. */
static void put_in_order(struct fault *f, struct parcel *p)
{
	struct list *before = f->queue.prev;

	while (before != &f->queue && container_of(before, struct parcel, node)->at > p->at)
		before = before->prev;
	list_insert(&p->node, before, before->next);
}

static int send_later(struct fault *f, const struct seg *s, uint64_t wait, bool overtaken,
		      struct waiter *w)
{
	struct parcel *p;
	uint64_t at = clock_now() + wait;
	int err = make_room(f, w);

	err = err ? err : parcel_make(s, true, &p);
	if (err)
		return err == ENOMEM ? 0 : err; /* lost, as in a network without memory */
	p->at = at;
	spin_lock(&f->lock);
	count(overtaken ? &counts.reordered : &counts.delayed);
	f->queued++;
	put_in_order(f, p);
	fetch_add_relaxed(&f->d.refs, 1); /* a datagram's destination goes before it */
	spin_unlock(&f->lock);
	if (!fetch_add_acq_rel(&fault_queued, 1) && begun.fn)
		begun.fn(begun.arg);
	return 0;
}

static int send_one(struct fault *f, const struct fault_config *c, const struct seg *s,
		    struct waiter *w)
{
	bool overtaken = happens(f, c->reorder);
	uint64_t wait = c->delay + (overtaken ? REORDER_NS : 0);

	return wait ? send_later(f, s, wait, overtaken, w) : pass(f, s, w);
}

static bool is_for(const struct fault_config *c, const struct seg *s)
{
	uint32_t psns = 1 + ((uint32_t)(c->psn_last - c->psn) & PSN_MASK);

	return (!c->qp || s->dqpn == c->qp || s->sqpn == c->qp) &&
	       (!c->only_psn || psn_within(s->psn, (uint32_t)c->psn, psns));
}

/* The settings as they are now. True: they pick this segment, which is counted. */
static bool settings(struct fault_dice *dice, const struct seg *s, struct fault_config *out)
{
	bool yes;

	spin_lock(&dice->lock);
	if (unlikely(fault_live_changed(&dice->seen, &dice->cfg))) {
		dice->hits = 0;
		rand_init(&dice->rand, dice->cfg.seed + dice->index);
	}
	*out = dice->cfg;
	yes = is_for(out, s) && (!out->count || dice->hits < out->count);
	dice->hits += yes;
	spin_unlock(&dice->lock);
	return yes;
}

/* The link did not take the segment: the sender brings it again, and it counts then. */
static int not_taken(struct fault_dice *dice, int err)
{
	spin_lock(&dice->lock);
	dice->hits -= dice->hits > 0;
	spin_unlock(&dice->lock);
	return err;
}

static int send_plainly(struct fault *f, const struct seg *s, struct waiter *w)
{
	int err = pass(f, s, w);

	if (!err)
		count(&counts.sent);
	return err;
}

static int fault_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	struct fault *f = to_fault(d);
	struct seg by_value = *s;
	struct fault_config cfg;
	int err;

	if (dest_dead(d))
		return ENETUNREACH;
	if (s->len > MAX_SEG)
		return EINVAL;
	by_value.flags |= SEG_NO_REF;
	if (!settings(f->dice, s, &cfg))
		return send_plainly(f, &by_value, w);
	if (happens(f, cfg.loss)) {
		count(&counts.lost);
		return 0;
	}
	by_value.damaged = happens(f, cfg.corrupt);
	err = send_one(f, &cfg, &by_value, w);
	if (err)
		return not_taken(f->dice, err);
	if (by_value.damaged) {
		count(&counts.damaged);
		if (!is_noticed(f, s))
			count(&counts.undetected);
		return 0;
	}
	count(&counts.sent);
	if (happens(f, cfg.dup) && !send_one(f, &cfg, &by_value, NULL))
		count(&counts.doubled);
	return 0;
}

static int fault_fetch(struct dest *from, const struct seg *s, uint32_t skip,
		       const struct piece *dst, unsigned int ndst)
{
	return from->inner->ops->fetch(from->inner, s, skip, dst, ndst);
}

static int fault_direct(struct dest *d, struct direct_ask *ask)
{
	(void)d;
	(void)ask;
	return EAGAIN;
}

static void fault_cancel(struct dest *d, struct waiter *w)
{
	d->inner->ops->cancel(d->inner, w);
}

static void fault_put(struct dest *d)
{
	struct fault *f = to_fault(d);

	spin_lock(&all_lock);
	if (fetch_sub_acq_rel(&d->refs, 1) != 1) {
		spin_unlock(&all_lock);
		return;
	}
	list_del(&f->all);
	spin_unlock(&all_lock);
	d->inner->ops->put(d->inner);
	free(f);
}

static const struct link_ops fault_ops = {
	.name = "fault",
	.send = fault_send,
	.fetch = fault_fetch,
	.direct = fault_direct,
	.cancel = fault_cancel,
	.put = fault_put,
};

static void dice_init(struct fault_dice *dice, const struct fault_config *cfg)
{
	dice->cfg = *cfg;
	dice->index = fetch_add_relaxed(&wrapped, 1);
	rand_init(&dice->rand, cfg->seed + dice->index);
}

int fault_dice_make(const struct fault_config *cfg, struct fault_dice **out)
{
	struct fault_dice *dice = calloc(1, sizeof(*dice));

	if (!dice)
		return ENOMEM;
	dice_init(dice, cfg);
	*out = dice;
	return 0;
}

static struct fault *fault_new(struct dest *inner)
{
	struct fault *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	list_init(&f->queue);
	f->d = (struct dest){ .ops = &fault_ops,
			      .refs = 1,
			      .max_seg = inner->max_seg < MAX_SEG ? inner->max_seg : MAX_SEG,
			      .inline_max = UINT32_MAX,
			      .net = inner->net,
			      .inner = inner };
	spin_lock(&all_lock);
	list_add_tail(&everyone, &f->all);
	spin_unlock(&all_lock);
	return f;
}

int fault_wrap(struct dest *inner, const struct fault_config *cfg, struct dest **out)
{
	struct fault *f = fault_new(inner);

	if (!f)
		return ENOMEM;
	f->dice = &f->own;
	dice_init(f->dice, cfg);
	*out = &f->d;
	return 0;
}

int fault_wrap_with(struct dest *inner, struct fault_dice *dice, struct dest **out)
{
	struct fault *f = fault_new(inner);

	if (!f)
		return ENOMEM;
	f->dice = dice;
	*out = &f->d;
	return 0;
}

/* When the first delayed segment is to leave; under f->lock. */
static uint64_t due_at(const struct fault *f)
{
	const struct parcel *p = first(f);

	if (!p)
		return UINT64_MAX;
	return p->at > f->pause && !load_relaxed(&leaving) ? p->at : f->pause;
}

/* Under f->lock: the segment that is due. */
static struct parcel *due(struct fault *f, uint64_t now)
{
	return due_at(f) <= now ? first(f) : NULL;
}

/* Sends what is due, in order. Without room the rest waits: a network's queue, not a loss. */
static void send_due(struct fault *f, uint64_t now)
{
	struct parcel *p;
	int err = 0;

	spin_lock(&f->out);
	while (err != EAGAIN) {
		spin_lock(&f->lock);
		p = due(f, now);
		spin_unlock(&f->lock);
		if (!p)
			break;
		err = dest_send(f->d.inner, &p->seg, NULL);
		if (err != EAGAIN)
			done(f, p);
	}
	if (err == EAGAIN) {
		spin_lock(&f->lock);
		f->pause = now + AGAIN_NS;
		spin_unlock(&f->lock);
	}
	spin_unlock(&f->out);
}

struct fulls { /* destinations that had no room for a segment that is due */
	unsigned int n;
	struct {
		const struct dest *to;
		uint64_t until; /* ns: when it is tried again */
	} at[8]; /* of more the order may be lost */
};

/* Under f->lock. What has gone to a full destination by another way is not overtaken: each datagram
 * has a way of its own. */
static bool may_go(struct fault *f, struct fulls *full, uint64_t now)
{
	const struct parcel *p;

	for (unsigned int i = 0; i < full->n; i++)
		if (full->at[i].to == f->d.inner && full->at[i].until > f->pause)
			f->pause = full->at[i].until;
	if (due(f, now))
		return true;
	p = first(f);
	if (p && p->at <= now && full->n < sizeof(full->at) / sizeof(full->at[0])) {
		full->at[full->n].to = f->d.inner;
		full->at[full->n++].until = f->pause;
	}
	return false;
}

/* The first destination with a segment that is due, with a reference. */
static struct fault *next_due(uint64_t now)
{
	struct fault *f, *ready = NULL;
	struct fulls full = { 0 };
	struct list *pos;

	spin_lock(&all_lock);
	list_for_each(pos, &everyone)
	{
		f = container_of(pos, struct fault, all);
		spin_lock(&f->lock);
		if (may_go(f, &full, now))
			ready = f;
		spin_unlock(&f->lock);
		if (ready)
			break;
	}
	if (ready)
		fetch_add_relaxed(&ready->d.refs, 1);
	spin_unlock(&all_lock);
	return ready;
}

void fault_progress_now(void)
{
	uint64_t now = clock_now();
	struct fault *f;

	while ((f = next_due(now))) {
		send_due(f, now);
		f->d.ops->put(&f->d);
	}
}

void fault_leave(void)
{
	uint64_t end = clock_now() + LEAVE_NS;

	store_relaxed(&leaving, true);
	while (load_relaxed(&fault_queued) && clock_now() < end) {
		fault_progress_now();
		sched_yield(); /* to the peer, which makes room */
	}
}

void fault_when_delayed(void (*fn)(void *arg), void *arg)
{
	begun.fn = fn;
	begun.arg = arg;
}

void fault_fork_begin(void)
{
	fault_live_fork_begin();
	spin_lock(&all_lock);
}

void fault_fork_end(bool child)
{
	while (child && !list_empty(&everyone))
		list_del(everyone.next);
	if (child)
		store_relaxed(&fault_queued, 0);
	spin_unlock(&all_lock);
	fault_live_fork_end(child);
}

uint64_t fault_deadline(void)
{
	uint64_t at = UINT64_MAX;
	struct fault *f;
	struct list *pos;

	if (!load_relaxed(&fault_queued))
		return at;
	spin_lock(&all_lock);
	list_for_each(pos, &everyone)
	{
		f = container_of(pos, struct fault, all);
		spin_lock(&f->lock);
		if (due_at(f) < at)
			at = due_at(f);
		spin_unlock(&f->lock);
	}
	spin_unlock(&all_lock);
	return at;
}
