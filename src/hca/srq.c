// SPDX-License-Identifier: MIT
#include "hca/srq.h"
#include <errno.h>
#include <stdlib.h>
#include "hca/alive.h"
#include "hca/async.h"
#include "hca/limits.h"
#include "hca/numbers.h"
#include "hca/tag_list.h"
#include "obs/explain.h"
#include "util/be.h"
#include "util/fork.h"

NUMBERS(srqns, 1 << 16); /* LIMIT_SRQ for each of 16 devices */

/* WQEs that the doorbell record covers beyond @taken: never more than the ring has. Acquire pairs
 * with the driver's store of the record, after it wrote the WQEs. */
static uint16_t posted_beyond(const struct rq_ring *ring, uint16_t taken)
{
	uint32_t posted;

	if (!ring->cnt)
		return 0;
	posted = (uint16_t)(be32toh(load_acquire(ring->dbrec)) - taken);
	return (uint16_t)(posted < ring->cnt ? posted : ring->cnt);
}

uint16_t rq_posted(const struct rq *rq)
{
	return posted_beyond(&rq->ring, rq->head);
}

int rq_take(struct rq *rq, struct rwqe *out)
{
	if (!rq_posted(rq))
		return ENOENT;
	rwqe_parse(&rq->ring, rq->head, out);
	rq->head++;
	return 0;
}

int srq_create(struct pd *pd, const struct srq_attr *attr, struct srq **out)
{
	uint32_t *count = &pd->ctx->hca->count.srq;
	int err = pd_use(pd, "ibv_create_srq");
	struct srq *srq;

	if (!err && attr->limit > attr->max_wr)
		err = refuse(EINVAL,
			     "ibv_create_srq: srq_limit %u is above max_wr %u; ask for less",
			     attr->limit, attr->max_wr);
	if (!err)
		err = device_take(count, LIMIT_SRQ, "ibv_create_srq");
	if (err)
		return err;
	srq = calloc(1, sizeof(*srq));
	if (srq)
		srq->srqn = attr->srqn;
	if (!srq || (attr->tm_cq && tag_list_create(attr->tm_cq, attr->max_num_tags, &srq->tags)) ||
	    (!attr->xrcd && numbers_take(&srqns, &srq->srqn))) {
		if (srq)
			tag_list_destroy(srq->tags);
		free(srq);
		device_give(count);
		return refuse(
			ENOMEM,
			"ibv_create_srq: no memory or no number left for an SRQ; destroy some");
	}
	srq->pd = pd;
	srq->epoch = fork_epoch();
	srq->uidx = attr->uidx;
	spin_init(&srq->lock);
	srq->ring = attr->ring;
	srq->max_wr = attr->max_wr;
	srq->max_sge = attr->max_sge;
	srq->limit = attr->limit;
	srq->user = attr->user;
	srq->xrcd = attr->xrcd;
	srq->cq = attr->cq;
	if (srq->xrcd) {
		xrcd_get(srq->xrcd);
		cq_get(srq->cq);
	}
	pd_get(pd);
	*out = srq;
	return 0;
}

int srq_destroy(struct srq *srq)
{
	uint32_t refs = load_acquire(&srq->refs); /* pairs with srq_put() */
	char users[ALIVE_USERS];

	if (refs)
		return refuse(EBUSY,
			      "ibv_destroy_srq: SRQ 0x%x is in use by %u QP%s%s; destroy %s first",
			      srq->srqn, refs, refs == 1 ? "" : "s", alive_users(srq->user, users),
			      refs == 1 ? "it" : "them");
	if (fork_is_ours(srq->epoch)) {
		async_drop(srq->pd->ctx, srq->user);
		if (!srq->xrcd)
			numbers_give(&srqns, srq->srqn);
		device_give(&srq->pd->ctx->hca->count.srq);
	}
	if (srq->xrcd) {
		cq_put(srq->cq);
		xrcd_put(srq->xrcd);
	}
	pd_put(srq->pd);
	tag_list_destroy(srq->tags);
	free(srq);
	return 0;
}

void srq_get(struct srq *srq)
{
	fetch_add_relaxed(&srq->refs, 1);
}

void srq_put(struct srq *srq)
{
	fetch_sub_acq_rel(&srq->refs, 1);
}

int srq_take_locked(struct srq *srq, struct rwqe *out, bool *low)
{
	uint16_t posted = posted_beyond(&srq->ring, srq->taken), next;

	if (!posted)
		return ENOENT;
	srwqe_parse(&srq->ring, srq->next, out, &next);
	srq->next = next &
		    (srq->ring.cnt - 1); /* the ring is the program's: any number may stand there */
	srq->taken++;
	*low = posted - 1U < srq->limit;
	if (*low)
		store_relaxed(&srq->limit, 0);
	return 0;
}

void srq_low(struct srq *srq)
{
	async_push(srq->pd->ctx, IBV_EVENT_SRQ_LIMIT_REACHED, srq->user);
}

int srq_take(struct srq *srq, struct rwqe *out)
{
	bool low = false;
	int err;

	spin_lock(&srq->lock);
	err = srq_take_locked(srq, out, &low);
	spin_unlock(&srq->lock);
	if (low)
		srq_low(srq);
	return err;
}

uint16_t srq_posted(struct srq *srq)
{
	uint16_t n;

	spin_lock(&srq->lock);
	n = posted_beyond(&srq->ring, srq->taken);
	spin_unlock(&srq->lock);
	return n;
}

void srq_switch(struct srq *srq, const struct rq_ring *ring, bool anew)
{
	spin_lock(&srq->lock);
	srq->ring = *ring;
	if (anew)
		srq->next = 0;
	spin_unlock(&srq->lock);
}

uint64_t srq_wr_id(struct srq *srq, uint16_t index)
{
	uint64_t id;

	spin_lock(&srq->lock);
	id = rq_ring_wr_id(&srq->ring, index);
	spin_unlock(&srq->lock);
	return id;
}

void srq_set_max_wr(struct srq *srq, uint32_t max_wr)
{
	spin_lock(&srq->lock);
	srq->max_wr = max_wr;
	spin_unlock(&srq->lock);
}

int srq_set_limit(struct srq *srq, uint32_t limit)
{
	uint32_t max_wr;

	if (!fork_is_ours(srq->epoch))
		return refuse(EIO,
			      "ibv_modify_srq: SRQ 0x%x was made before fork(); make one in the "
			      "child",
			      srq->srqn);
	spin_lock(&srq->lock);
	max_wr = srq->max_wr;
	if (limit <= max_wr)
		store_relaxed(&srq->limit, limit);
	spin_unlock(&srq->lock);
	if (limit > max_wr)
		return refuse(EINVAL,
			      "ibv_modify_srq: srq_limit %u is above max_wr %u of SRQ 0x%x; ask "
			      "for less",
			      limit, max_wr, srq->srqn);
	return 0;
}
