// SPDX-License-Identifier: MIT
/* Memory windows. The two that the peer uses are bound before the first step, by work requests
 * that belong to no step; the third is bound and invalidated by operations of the program. */
#include <errno.h>
#include <sched.h>
#include "property/side.h"

enum { ACCESS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static struct ibv_mw *one(struct side *s, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->pr->pd, type);

	if (!mw)
		board_fail("ibv_alloc_mw: errno %d", errno);
	return mw;
}

void window_close(struct side *s)
{
	for (unsigned int i = 0; i < WINDOWS; i++)
		if (s->mw[i]) {
			must_eq(s, ibv_dealloc_mw(s->mw[i]), 0);
			s->mw[i] = NULL;
		}
}

void window_alloc(struct side *s)
{
	struct address *a = &board->seat[s->link][s->s].addr;

	window_close(s);
	if (s->v.l->type == IBV_QPT_RC) {
		s->mw[0] = one(s, IBV_MW_TYPE_1);
		s->mw[1] = one(s, IBV_MW_TYPE_2);
		a->window[0] = ibv_inc_rkey(s->mw[0]->rkey);
		a->window[1] = ibv_inc_rkey(s->mw[1]->rkey);
	}
	s->mw[2] = one(s, IBV_MW_TYPE_2);
	s->own_rkey = s->mw[2]->rkey;
}

static struct ibv_mw_bind_info all(const struct side *s, unsigned int access)
{
	return (struct ibv_mw_bind_info){ s->mr, (uintptr_t)s->mem, s->bytes, access };
}

static void wait_for(struct side *s, unsigned int bound)
{
	while (atomic_load(&s->bound) < bound)
		if (!box_poll(s->pr, s->sbox, 1))
			sched_yield();
}

void window_bind(struct side *s)
{
	struct ibv_mw_bind b = { prologue_id(s), IBV_SEND_SIGNALED, all(s, ACCESS) };
	struct ibv_send_wr wr = { .wr_id = prologue_id(s),
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	unsigned int zero = s->v.mine->zero_based ? IBV_ACCESS_ZERO_BASED : 0;

	if (s->v.l->type != IBV_QPT_RC)
		return;
	atomic_store(&s->bound, 0);
	must_eq(s, ibv_bind_mw(s->qp, s->mw[0], &b), 0);
	wait_for(s, 1);
	wr.bind_mw.mw = s->mw[1];
	wr.bind_mw.rkey = ibv_inc_rkey(s->mw[1]->rkey);
	wr.bind_mw.bind_info = all(s, ACCESS | zero);
	must_eq(s, ibv_post_send(s->qp, &wr, &bad), 0);
	wait_for(s, 2);
}

void window_build(const struct side *s, unsigned int k, struct ibv_send_wr *wr)
{
	const struct op *o = &s->v.mine->op[k];
	uint32_t binds = 0, rkey;

	if (o->opcode == IBV_WR_SEND_WITH_INV) {
		wr->invalidate_rkey = o->sin == SIN_WINDOW ? s->peer.rkey : s->peer.window[1];
		return;
	}
	for (unsigned int i = 0; i <= k; i++)
		binds += s->v.mine->op[i].opcode == IBV_WR_BIND_MW;
	rkey = (s->own_rkey & ~0xffU) | ((s->own_rkey + binds) & 0xff);
	if (o->opcode == IBV_WR_LOCAL_INV) {
		wr->invalidate_rkey = o->sin == SIN_WINDOW ? rkey ^ 1 : rkey;
		return;
	}
	wr->bind_mw.mw = s->mw[2];
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = all(s, ACCESS);
	wr->bind_mw.bind_info.length += o->sin == SIN_WINDOW; /* a byte behind the region */
}

void window_refused(struct side *s)
{
	struct ibv_mw_bind b = { 0, 0, all(s, ACCESS) };
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW }, *bad = NULL;

	must_eq(s, ibv_bind_mw(s->qp, s->mw[2], &b), EINVAL); /* which is of type 2 */
	must_eq(s, ibv_post_send(s->qp, &wr, &bad), EINVAL); /* no window */
	must(s, bad == &wr);
	if (s->v.l->ep[s->ep].fickle != VIA_TYPE_1)
		must_eq(s, ibv_dereg_mr(s->mr), EBUSY); /* a window is bound to it */
}
