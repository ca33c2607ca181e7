// SPDX-License-Identifier: MIT
/* Uses what others use, and makes and destroys what nobody uses. */
#include <errno.h>
#include <sched.h>
#include "property/side.h"

static void object(struct process *pr, uint64_t draw)
{
	static char bytes[4096];
	struct ibv_mr *mr = ibv_reg_mr(pr->pd, bytes, 1 + draw % sizeof(bytes), 0);
	struct ibv_cq *cq = ibv_create_cq(pr->ctx, 1 + (int)(draw % 50), NULL, NULL, 0);
	struct ibv_qp_init_attr a = { .send_cq = cq,
				      .recv_cq = pr->shared.cq,
				      .cap = { 4, 4, 1, 1, 0 },
				      .qp_type = draw & 1 ? IBV_QPT_RC : IBV_QPT_UD };
	struct ibv_qp *qp = ibv_create_qp(pr->pd, &a);

	if (!mr || !cq || !qp)
		board_fail("process %u: an object is not made: errno %d", pr->number, errno);
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dereg_mr(mr))
		board_fail("process %u: an object stays in use", pr->number);
}

static void act(struct process *pr, uint64_t draw)
{
	switch (draw % 7) {
	case 0:
		object(pr, draw >> 8);
		break;
	case 1:
		if (ibv_resize_cq(pr->shared.cq, SITS_IN * (OPS + RECVS) + (int)(draw >> 8) % 700))
			board_fail("process %u: ibv_resize_cq is refused", pr->number);
		break;
	case 2:
		pool_change(&pr->pool, draw >> 8);
		break;
	case 3:
		if (ibv_req_notify_cq(pr->shared.cq, (int)(draw >> 8 & 1)))
			board_fail("process %u: ibv_req_notify_cq is refused", pr->number);
		break;
	case 4:
		events_read(pr);
		break;
	default:
		box_poll(pr, &pr->shared, 1 + (int)(draw >> 8) % 16);
	}
}

void *meddle(void *arg)
{
	struct process *pr = arg;
	uint64_t n = mix(pr->p->seed, pr->number);

	while (!atomic_load(&pr->over)) {
		n = mix(n, 5);
		act(pr, n >> 4 & 0x7fffffff);
		if (n % 3 == 0)
			board_nap();
		else
			sched_yield();
	}
	return NULL;
}
