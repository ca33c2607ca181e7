// SPDX-License-Identifier: MIT
#include "hca/cq.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hca/alive.h"
#include "hca/async.h"
#include "hca/limits.h"
#include "hca/numbers.h"
#include "obs/explain.h"
#include "util/be.h"
#include "util/clock.h"
#include "util/fork.h"

#define CI_MASK 0xffffffU /* the consumer index in the doorbell record has 24 bits */

#define NEVER 0x80000000U /* cq_run.loud of a new CQ: long ago */

NUMBERS(cqns, 1 << 18); /* LIMIT_CQ for each of 16 devices */

/* @out: NULL, the CQ does not compress. */
static int run_make(const struct cq_attr *attr, struct cq_run **out)
{
	struct cq_run *r = NULL;

	if (attr->compressed && !(attr->extras & CQ_STAMPED)) {
		r = calloc(1, sizeof(*r));
		if (!r)
			return ENOMEM;
		r->session.format = attr->compressed;
		r->session.padded = attr->extras & CQ_PADDED;
		r->loud = NEVER;
	}
	*out = r;
	return 0;
}

static void cq_free(struct cq *cq)
{
	if (cq)
		free(cq->run);
	free(cq);
}

int cq_create(struct context *ctx, const struct cq_attr *attr, struct cq **out)
{
	int err = context_use(ctx, "ibv_create_cq");
	struct cq *cq;

	if (!err && attr->channel && attr->channel->ctx->root != ctx->root)
		err = refuse(EINVAL,
			     "ibv_create_cq: the completion channel is of another context; make "
			     "one on this");
	if (!err)
		err = device_take(&ctx->hca->count.cq, LIMIT_CQ, "ibv_create_cq");
	if (err)
		return err;
	cq = calloc(1, sizeof(*cq));
	if (!cq || run_make(attr, &cq->run) || numbers_take(&cqns, &cq->cqn)) {
		cq_free(cq);
		device_give(&ctx->hca->count.cq);
		return refuse(ENOMEM,
			      "ibv_create_cq: no memory or no number left for a CQ; destroy some");
	}
	cq->ctx = ctx;
	cq->epoch = fork_epoch();
	spin_init(&cq->lock);
	cq->buf = attr->buf;
	cq->cnt = attr->cnt;
	cq->cqe_size = attr->cqe_size;
	cq->dbrec = attr->dbrec;
	cq->ignore_overrun = attr->ignore_overrun;
	cq->extras = attr->extras | (cq->run ? CQ_COMPRESSES : 0);
	list_init(&cq->timer.node);
	cq->channel = attr->channel;
	cq->user = attr->user;
	list_init(&cq->event.node);
	cq->event.cq = attr->user;
	if (cq->channel)
		comp_channel_get(cq->channel);
	context_get(ctx);
	*out = cq;
	return 0;
}

int cq_destroy(struct cq *cq)
{
	uint32_t refs = load_acquire(&cq->refs); /* pairs with cq_put() */
	char users[ALIVE_USERS];

	if (refs)
		return refuse(EBUSY,
			      "ibv_destroy_cq: CQ 0x%x is in use by %u queue%s%s; destroy %s first",
			      cq->cqn, refs, refs == 1 ? "" : "s", alive_users(cq->user, users),
			      refs == 1 ? "it" : "them");
	if (fork_is_ours(cq->epoch)) {
		if (cq->ctx->hca->cq_timers)
			cq->ctx->hca->cq_timers->drop(cq);
		async_drop(cq->ctx, cq->user);
		numbers_give(&cqns, cq->cqn);
		device_give(&cq->ctx->hca->count.cq);
	}
	if (cq->channel) {
		comp_channel_drop(cq->channel, cq->user);
		comp_channel_put(cq->channel);
	}
	context_put(cq->ctx);
	cq_free(cq);
	return 0;
}

void cq_get(struct cq *cq)
{
	fetch_add_relaxed(&cq->refs, 1);
}

void cq_put(struct cq *cq)
{
	fetch_sub_acq_rel(&cq->refs, 1);
}

static bool is_error(const struct cqe *c)
{
	return c->opcode == MLX5_CQE_REQ_ERR || c->opcode == MLX5_CQE_RESP_ERR;
}

/* Is there no room behind entry @i? Acquire pairs with the consumer's store of its index, after it
 * has read the entries before. */
static bool full(const struct cq *cq, uint32_t i)
{
	uint32_t ci = be32toh(load_acquire(&cq->dbrec[0]));

	return !cq->ignore_overrun && ((i - ci) & CI_MASK) >= cq->cnt;
}

enum { NOTIFY_NOT, NOTIFY_NOW, NOTIFY_LATER };

/* Under the lock. One entry more for the event of a moderated CQ. */
static int moderated(struct cq *cq)
{
	bool first = !cq->moderate.pending++;

	if (cq->moderate.pending < cq->moderate.count)
		return first ? NOTIFY_LATER : NOTIFY_NOT;
	cq->moderate.pending = 0;
	cq->armed = CQ_IDLE;
	return NOTIFY_NOW;
}

/* Under the lock. NOTIFY_NOW: the entry is what the CQ was armed for; the CQ is armed no more. */
static int fulfils(struct cq *cq, const struct cqe *c)
{
	if (cq->armed == CQ_IDLE ||
	    (cq->armed == CQ_ARMED_SOLICITED && !c->solicited && !is_error(c)))
		return NOTIFY_NOT;
	if (unlikely(cq->moderate.count))
		return moderated(cq);
	cq->armed = CQ_IDLE;
	return NOTIFY_NOW;
}

static void notify(struct cq *cq, int when)
{
	const struct cq_timers *t = cq->ctx->hca->cq_timers;

	if (when == NOTIFY_NOW && cq->channel)
		comp_channel_push(cq->channel, &cq->event);
	else if (when == NOTIFY_LATER && t)
		t->later(cq, load_relaxed(&cq->moderate.period));
}

/* Under the lock. The clocks of two cores differ a little, but no entry may be older than the one
 * before it. */
static struct cqe stamped(struct cq *cq, const struct cqe *c)
{
	uint64_t now = clock_raw();
	struct cqe e = *c;

	if (now > cq->stamp)
		cq->stamp = now;
	e.timestamp = cq->stamp;
	return e;
}

static struct cqe_ring ring_of(const struct cq *cq)
{
	return (struct cqe_ring){ cq->buf, cq->cnt, cq->cqe_size };
}

/* Out of line: few queues compress. */
__attribute__((noinline)) static void write_session(struct cq *cq)
{
	struct cqe_ring ring = ring_of(cq);
	uint32_t n = cq->run->session.n;

	cqe_session_write(&cq->run->session, &ring, cq->pi);
	store_relaxed(&cq->pi, cq->pi + n); /* cq_written() */
}

/* Under the lock: cq_let_go(). */
static void let_go(struct cq *cq)
{
	if (unlikely(cq->run && cq->run->session.n))
		write_session(cq);
}

static uint8_t *entry_at(const struct cq *cq, uint32_t i)
{
	return cq->buf + (size_t)(i & (cq->cnt - 1)) * cq->cqe_size;
}

/* Under the lock: @c is to be the next entry, if there is room. */
static const struct cqe *with_extras(struct cq *cq, const struct cqe *c, struct cqe *with_time)
{
	if (cq->extras & CQ_COMPRESSES) {
		let_go(cq);
		if (c->solicited || is_error(c))
			cq->run->loud = cq->pi;
	}
	if (cq->extras & CQ_PADDED && !full(cq, cq->pi))
		memset(entry_at(cq, cq->pi), 0, cq->cqe_size - sizeof(struct mlx5_cqe64));
	if (!(cq->extras & CQ_STAMPED))
		return c;
	*with_time = stamped(cq, c);
	return with_time;
}

bool cq_misread(const struct cq *cq)
{
	uint32_t ci = be32toh(load_relaxed(&cq->dbrec[0]));

	return ((load_relaxed(&cq->pi) - ci) & CI_MASK) > cq->cnt;
}

static int overrun(struct cq *cq, bool first)
{
	if (!first)
		return EOVERFLOW;
	if (cq_misread(cq))
		reason("CQ 0x%x overrun: its doorbell record says that 0x%x entries were read, and "
		       "0x%x were written; store there how many were read",
		       cq->cqn, be32toh(load_relaxed(&cq->dbrec[0])) & CI_MASK,
		       load_relaxed(&cq->pi) & CI_MASK);
	else
		reason("CQ 0x%x overrun: all its %u entries wait to be polled; poll more often or "
		       "create it larger",
		       cq->cqn, cq->cnt);
	async_push(cq->ctx, IBV_EVENT_CQ_ERR, cq->user);
	return EOVERFLOW;
}

static inline int push(struct cq *cq, const struct cqe *c, const void *data)
{
	struct cqe with_time;
	uint8_t *entry;
	bool first;
	int when;

	spin_lock(&cq->lock);
	if (unlikely(cq->extras))
		c = with_extras(cq, c, &with_time);
	if (cq->overrun || full(cq, cq->pi)) {
		first = !cq->overrun;
		cq->overrun = true;
		spin_unlock(&cq->lock);
		return overrun(cq, first);
	}
	entry = entry_at(cq, cq->pi);
	if (data)
		cqe_write_inlined(entry, cq->cqe_size, c, data, !!(cq->pi & cq->cnt));
	else
		cqe_write((struct mlx5_cqe64 *)(entry + cq->cqe_size - sizeof(struct mlx5_cqe64)),
			  c, !!(cq->pi & cq->cnt));
	store_relaxed(&cq->pi, cq->pi + 1); /* cq_written() */
	when = fulfils(cq, c);
	spin_unlock(&cq->lock);
	if (when != NOTIFY_NOT)
		notify(cq, when);
	return 0;
}

/* Out of line: its callers are many, and long. */
__attribute__((noinline)) int cq_push(struct cq *cq, const struct cqe *c)
{
	return push(cq, c, NULL);
}

int cq_push_inlined(struct cq *cq, const struct cqe *c, const void *data)
{
	return push(cq, c, data);
}

/* Under the lock. Puts the CQ on the list. False: it is on another turn's, which may last. */
static bool listed(struct cq *cq, struct cq **list)
{
	struct cq_run *r = cq->run;

	if (!r->list) {
		r->list = list;
		r->next = *list;
		*list = cq;
	}
	return r->list == list;
}

/* Under the lock. An armed CQ is to raise its event at once. */
static int delay(struct cq *cq, const struct cqe *c, struct cq **list)
{
	struct cqe_session *s = &cq->run->session;

	cqe_session_add(s, c);
	if (c->solicited)
		cq->run->loud = cq->pi + s->n - 1;
	if (cq->armed == CQ_IDLE && listed(cq, list))
		return NOTIFY_NOT;
	let_go(cq);
	return fulfils(cq, c);
}

int cq_push_run(struct cq *cq, const struct cqe *c, struct cq **list)
{
	struct cq_run *r = cq->run;
	int when = NOTIFY_NOT;
	bool first, room;

	spin_lock(&cq->lock);
	if (r->list != list || !cqe_session_takes(&r->session, c) || r->session.n == cq->cnt)
		let_go(cq);
	room = !cq->overrun && !full(cq, cq->pi + r->session.n);
	first = !room && !cq->overrun;
	if (room)
		when = delay(cq, c, list);
	else
		cq->overrun = true;
	spin_unlock(&cq->lock);
	if (when != NOTIFY_NOT)
		notify(cq, when);
	return room ? 0 : overrun(cq, first);
}

void cq_run_end(struct cq **list)
{
	struct cq *cq;

	while ((cq = *list)) {
		spin_lock(&cq->lock);
		let_go(cq);
		*list = cq->run->next;
		cq->run->list = NULL;
		spin_unlock(&cq->lock);
	}
}

void cq_let_go(struct cq *cq)
{
	if (likely(!cq->run))
		return;
	spin_lock(&cq->lock);
	let_go(cq);
	spin_unlock(&cq->lock);
}

void cq_lay_open(struct cq *cq)
{
	spin_lock(&cq->lock);
	store_relaxed(&cq->extras, (uint8_t)(cq->extras | CQ_LAID_OPEN));
	spin_unlock(&cq->lock);
}

uint32_t cq_switch(struct cq *cq, const struct cqe_ring *ring, volatile uint32_t *dbrec,
		   uint32_t ci)
{
	uint32_t unread;

	spin_lock(&cq->lock);
	let_go(cq);
	unread = cq->pi - ci;
	if (unread < ring->cnt) {
		struct cqe_ring old = ring_of(cq);

		if (cq->run)
			cqe_session_expand_all(&old, ci, cq->pi, cq->run->session.format);
		cqe_ring_copy(&old, ring, ci, cq->pi);
		cq->buf = ring->buf;
		cq->cnt = ring->cnt;
		cq->cqe_size = ring->size;
		store_relaxed(&cq->dbrec, dbrec);
	}
	spin_unlock(&cq->lock);
	return unread;
}

/* Arming for solicited entries leaves a CQ that is armed for all entries as it is. */
void cq_arm(struct cq *cq, bool solicited)
{
	spin_lock(&cq->lock);
	let_go(cq);
	if (!solicited)
		cq->armed = CQ_ARMED;
	else if (cq->armed == CQ_IDLE)
		cq->armed = CQ_ARMED_SOLICITED;
	spin_unlock(&cq->lock);
}

/* Under the lock. The ring is the program's memory: what it has made of an entry decides on its own
 * event alone. */
static bool any_for(const struct cq *cq, bool solicited, uint32_t ci)
{
	uint32_t n = (cq->pi - ci) & CI_MASK;

	if (!solicited || n > cq->cnt)
		return n != 0;
	if (cq->run)
		return cq->pi - cq->run->loud <= n;
	for (uint32_t i = cq->pi - n; i != cq->pi; i++) {
		const uint8_t *end = cq->buf + ((i & (cq->cnt - 1)) + 1ULL) * cq->cqe_size;
		struct cqe c;

		cqe_read((const struct mlx5_cqe64 *)(end - sizeof(struct mlx5_cqe64)), &c);
		if (c.solicited || is_error(&c))
			return true;
	}
	return false;
}

void cq_arm_since(struct cq *cq, bool solicited, uint32_t ci)
{
	int when = NOTIFY_NOT;

	spin_lock(&cq->lock);
	let_go(cq);
	if (any_for(cq, solicited, ci)) {
		cq->armed = CQ_IDLE;
		cq->moderate.pending = 0;
		when = NOTIFY_NOW;
	} else if (!solicited) {
		cq->armed = CQ_ARMED;
	} else if (cq->armed == CQ_IDLE) {
		cq->armed = CQ_ARMED_SOLICITED;
	}
	spin_unlock(&cq->lock);
	notify(cq, when);
}

/* Under the lock. Entries that wait for more to share an event wait no longer. */
static int settle(struct cq *cq)
{
	if (!cq->moderate.pending)
		return NOTIFY_NOT;
	cq->moderate.pending = 0;
	cq->armed = CQ_IDLE;
	return NOTIFY_NOW;
}

void cq_moderate(struct cq *cq, uint16_t count, uint16_t us)
{
	bool off = count < 2 || !us;
	int when;

	spin_lock(&cq->lock);
	when = settle(cq);
	cq->moderate.count = off ? 0 : count;
	store_relaxed(&cq->moderate.period, us * 1000ULL);
	spin_unlock(&cq->lock);
	notify(cq, when);
}

void cq_period_over(struct cq *cq)
{
	int when;

	spin_lock(&cq->lock);
	when = settle(cq);
	spin_unlock(&cq->lock);
	notify(cq, when);
}
