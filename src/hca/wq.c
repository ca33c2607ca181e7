// SPDX-License-Identifier: MIT
#include "hca/wq.h"
#include <errno.h>
#include <stdlib.h>
#include "hca/async.h"
#include "hca/limits.h"
#include "hca/numbers.h"
#include "obs/explain.h"
#include "util/fork.h"

NUMBERS(wqns, 1 << 16); /* WQs and tables */

static const char *state_name(enum ibv_wq_state s)
{
	static const char *const names[] = { "RESET", "RDY", "ERR", "UNKNOWN" };

	return (unsigned int)s < IBV_WQS_UNKNOWN ? names[s] : names[IBV_WQS_UNKNOWN];
}

int wq_create(struct pd *pd, const struct wq_attr *attr, struct wq **out)
{
	struct wq *wq;
	uint32_t wqn;
	int err = pd_use(pd, "ibv_create_wq");

	if (err)
		return err;
	if (attr->cq->ctx->root != pd->ctx->root || !fork_is_ours(attr->cq->epoch))
		return refuse(EINVAL,
			      "ibv_create_wq: PD 0x%x and CQ 0x%x are of different contexts or "
			      "processes; use those of one",
			      pd->pdn, attr->cq->cqn);
	err = device_take(&pd->ctx->hca->count.wq, LIMIT_WQ, "ibv_create_wq");
	if (err)
		return err;
	wq = calloc(1, sizeof(*wq));
	if (!wq || numbers_take(&wqns, &wqn)) {
		free(wq);
		device_give(&pd->ctx->hca->count.wq);
		return refuse(ENOMEM,
			      "ibv_create_wq: no memory or no number left for a WQ; destroy some");
	}
	*wq = (struct wq){
		.pd = pd,
		.cq = attr->cq,
		.epoch = fork_epoch(),
		.wqn = wqn,
		.uidx = attr->uidx,
		.state = IBV_WQS_RESET,
		.flags = attr->flags,
		.rq = { .ring = attr->rq },
		.user = attr->user,
	};
	strides_init(&wq->strides, &attr->strides);
	spin_init(&wq->lock);
	pd_get(pd);
	cq_get(wq->cq);
	*out = wq;
	return 0;
}

int wq_destroy(struct wq *wq)
{
	uint32_t refs = load_acquire(&wq->refs);

	if (!fork_is_ours(wq->epoch)) {
		cq_put(wq->cq);
		pd_put(wq->pd);
		free(wq);
		return 0;
	}
	if (refs)
		return refuse(EBUSY,
			      "ibv_destroy_wq: WQ 0x%x stands in %u entries of indirection "
			      "tables; destroy those first",
			      wq->wqn, refs);
	async_drop(wq->pd->ctx, wq->user);
	numbers_give(&wqns, wq->wqn);
	device_give(&wq->pd->ctx->hca->count.wq);
	cq_put(wq->cq);
	pd_put(wq->pd);
	free(wq);
	return 0;
}

static void flush_one(struct wq *wq, uint16_t idx)
{
	struct cqe c = { .opcode = MLX5_CQE_RESP_ERR,
			 .syndrome = MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
			 .vendor_err = VENDOR_RECV_FLUSH,
			 .wqe_counter = idx,
			 .uidx = wq->uidx,
			 .qpn = wq->wqn };

	cq_push(wq->cq, &c); /* an overrun CQ loses these as hardware's would */
}

/* Under the lock. Into ERR, with all that is posted; a WQE of which strides are left is one. */
static void flush(struct wq *wq)
{
	struct rwqe w;
	uint16_t left;

	store_relaxed(&wq->state, IBV_WQS_ERR);
	full_fence(); /* pairs with wq_doorbell(): it sees the state, or we its WQEs */
	left = rq_posted(&wq->rq); /* the record may change meanwhile */
	if (strides_end(&wq->strides))
		flush_one(wq, wq->strides.wqe.idx);
	for (; left && !rq_take(&wq->rq, &w); left--)
		flush_one(wq, w.idx);
}

void wq_stop(struct wq *wq)
{
	if (wq->state == IBV_WQS_RDY)
		flush(wq);
}

void wq_switch(struct wq *wq, const struct rq_ring *ring)
{
	spin_lock(&wq->lock);
	wq->rq.ring = *ring;
	spin_unlock(&wq->lock);
}

void wq_doorbell(struct wq *wq)
{
	/* The count of WQEs is stored and fenced: pairs with flush(). */
	if (load_relaxed(&wq->state) != IBV_WQS_ERR)
		return;
	spin_lock(&wq->lock);
	if (wq->state == IBV_WQS_ERR)
		flush(wq);
	spin_unlock(&wq->lock);
}

static int move_check(const struct wq *wq, const struct ibv_wq_attr *a)
{
	static const bool moves[3][3] = {
		[IBV_WQS_RESET] = { [IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true },
		[IBV_WQS_RDY] = { true, true, true },
		[IBV_WQS_ERR] = { [IBV_WQS_RESET] = true, [IBV_WQS_ERR] = true },
	};

	if ((a->attr_mask & IBV_WQ_ATTR_CURR_STATE) && a->curr_wq_state != wq->state)
		return refuse(EINVAL,
			      "ibv_modify_wq: WQ 0x%x is in %s, curr_wq_state says %s; leave "
			      "IBV_WQ_ATTR_CURR_STATE out",
			      wq->wqn, state_name(wq->state), state_name(a->curr_wq_state));
	if (!(a->attr_mask & IBV_WQ_ATTR_STATE))
		return 0;
	if ((unsigned int)a->wq_state > IBV_WQS_ERR || !moves[wq->state][a->wq_state])
		return refuse(EINVAL,
			      "ibv_modify_wq: WQ 0x%x: %s to %s is not a move of work queues; "
			      "RESET goes to RDY, RDY to RESET and ERR, ERR to RESET",
			      wq->wqn, state_name(wq->state), state_name(a->wq_state));
	return 0;
}

static int modify_check(const struct wq *wq, const struct ibv_wq_attr *a)
{
	const uint32_t known = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS;

	if (!fork_is_ours(wq->epoch))
		return refuse(EIO,
			      "ibv_modify_wq: WQ 0x%x was made before fork(); make one in the "
			      "child",
			      wq->wqn);
	if (a->attr_mask & ~known)
		return refuse(EINVAL,
			      "ibv_modify_wq: attr_mask 0x%x, known are 0x%x; leave the rest out",
			      a->attr_mask, known);
	if ((a->attr_mask & IBV_WQ_ATTR_FLAGS) &&
	    (a->flags_mask & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING))
		return refuse(EOPNOTSUPP,
			      "ibv_modify_wq: flags_mask 0x%x; only IBV_WQ_FLAGS_CVLAN_STRIPPING "
			      "can be changed",
			      a->flags_mask);
	return 0;
}

int wq_modify(struct wq *wq, const struct ibv_wq_attr *a, bool *reset)
{
	int err = modify_check(wq, a);

	*reset = false;
	if (err)
		return err;
	spin_lock(&wq->lock);
	err = move_check(wq, a);
	if (!err && (a->attr_mask & IBV_WQ_ATTR_FLAGS))
		wq->flags = (wq->flags & ~a->flags_mask) | (a->flags & a->flags_mask);
	if (!err && (a->attr_mask & IBV_WQ_ATTR_STATE)) {
		if (a->wq_state == IBV_WQS_ERR)
			flush(wq);
		else
			store_relaxed(&wq->state, a->wq_state);
		*reset = a->wq_state == IBV_WQS_RESET;
		if (*reset) {
			wq->rq.head = 0;
			strides_end(&wq->strides);
		}
	}
	spin_unlock(&wq->lock);
	return err;
}

static int table_check(const struct context *ctx, unsigned int log, struct wq *const *wqs)
{
	if (log > LIMIT_RWQ_TABLE_LOG)
		return refuse(EINVAL,
			      "ibv_create_rwq_ind_table: log_ind_tbl_size %u, at most %d "
			      "(rss_caps.max_rwq_indirection_table_size); ask for less",
			      log, LIMIT_RWQ_TABLE_LOG);
	for (unsigned int i = 0; i < 1U << log; i++)
		if (wqs[i]->pd->ctx->root != ctx->root || !fork_is_ours(wqs[i]->epoch))
			return refuse(EINVAL,
				      "ibv_create_rwq_ind_table: WQ 0x%x at %u is of another "
				      "context or process; use WQs of one",
				      wqs[i]->wqn, i);
	return 0;
}

int rwq_table_create(struct context *ctx, unsigned int log, struct wq *const *wqs,
		     struct rwq_table **out)
{
	uint32_t *count = &ctx->hca->count.rwq_table;
	struct rwq_table *t;
	uint32_t number;
	int err = context_use(ctx, "ibv_create_rwq_ind_table");

	err = err ? err : table_check(ctx, log, wqs);
	err = err ? err : device_take(count, LIMIT_RWQ_TABLES, "ibv_create_rwq_ind_table");
	if (err)
		return err;
	t = calloc(1, sizeof(*t) + (sizeof(t->wq[0]) << log));
	if (!t || numbers_take(&wqns, &number)) {
		free(t);
		device_give(count);
		return refuse(ENOMEM, "ibv_create_rwq_ind_table: no memory or no number left for a "
				      "table; destroy some");
	}
	t->ib.context = &ctx->ib.context;
	t->ib.ind_tbl_handle = t->ib.ind_tbl_num = (int)number;
	t->ctx = ctx;
	t->epoch = fork_epoch();
	t->n = 1U << log;
	for (unsigned int i = 0; i < t->n; i++) {
		t->wq[i] = wqs[i];
		fetch_add_relaxed(&wqs[i]->refs, 1);
	}
	context_get(ctx);
	*out = t;
	return 0;
}

int rwq_table_destroy(struct rwq_table *t)
{
	uint32_t refs = load_acquire(&t->refs);

	if (refs && fork_is_ours(t->epoch))
		return refuse(EBUSY,
			      "ibv_destroy_rwq_ind_table: %u QPs spread frames over it; destroy "
			      "them first",
			      refs);
	for (unsigned int i = 0; i < t->n; i++)
		fetch_sub_acq_rel(&t->wq[i]->refs, 1);
	if (fork_is_ours(t->epoch)) {
		numbers_give(&wqns, (uint32_t)t->ib.ind_tbl_num);
		device_give(&t->ctx->hca->count.rwq_table);
	}
	context_put(t->ctx);
	free(t);
	return 0;
}
