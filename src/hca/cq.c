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
#include "obs/leaks.h"
#include "util/be.h"
#include "util/clock.h"
#include "util/fork.h"

#define CI_MASK 0xffffffU /* the consumer index in the doorbell record has 24 bits */

NUMBERS(cqns, 1 << 18); /* LIMIT_CQ for each of 16 devices */

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
	if (!cq || numbers_take(&cqns, &cq->cqn)) {
		free(cq);
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
	cq->extras = attr->extras;
	list_init(&cq->timer.node);
	cq->channel = attr->channel;
	cq->user = attr->user;
	list_init(&cq->event.node);
	cq->event.cq = attr->user;
	if (cq->channel)
		comp_channel_get(cq->channel);
	context_get(ctx);
	leaks_made(cq, ctx, "CQ", cq->cqn);
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
		leaks_gone(cq);
	}
	if (cq->channel) {
		comp_channel_drop(cq->channel, cq->user);
		comp_channel_put(cq->channel);
	}
	context_put(cq->ctx);
	free(cq);
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

/* Acquire pairs with the consumer's store of its index, after it has read the entries before. */
static bool full(const struct cq *cq)
{
	uint32_t ci = be32toh(load_acquire(&cq->dbrec[0]));

	return !cq->ignore_overrun && ((cq->pi - ci) & CI_MASK) >= cq->cnt;
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

/* Under the lock. */
static const struct cqe *with_extras(struct cq *cq, const struct cqe *c, uint8_t *entry,
				     struct cqe *with_time)
{
	if (cq->extras & CQ_PADDED)
		memset(entry, 0, cq->cqe_size - sizeof(struct mlx5_cqe64));
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
	if (cq->overrun || full(cq)) {
		first = !cq->overrun;
		cq->overrun = true;
		spin_unlock(&cq->lock);
		return overrun(cq, first);
	}
	entry = cq->buf + (size_t)(cq->pi & (cq->cnt - 1)) * cq->cqe_size;
	if (unlikely(cq->extras))
		c = with_extras(cq, c, entry, &with_time);
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

int cq_push(struct cq *cq, const struct cqe *c)
{
	return push(cq, c, NULL);
}

int cq_push_inlined(struct cq *cq, const struct cqe *c, const void *data)
{
	return push(cq, c, data);
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
	unread = cq->pi - ci;
	if (unread < ring->cnt) {
		struct cqe_ring old = { cq->buf, cq->cnt, cq->cqe_size };

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
