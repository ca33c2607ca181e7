// SPDX-License-Identifier: MIT
/* Calls that must be refused, at any moment, with their errno, and change nothing. */
#include <errno.h>
#include "property/side.h"

#define UNKNOWN_OPCODE ((enum ibv_wr_opcode)99)

static int post(struct side *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int err = ibv_post_send(s->qp, wr, &bad);

	must(s, bad == wr);
	return err;
}

static void too_many_sges(struct side *s)
{
	struct ibv_sge sg[64] = { { 0, 0, 0 } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .sg_list = sg,
				  .num_sge = (int)s->cap.max_send_sge + 1,
				  .wr.ud.ah = s->ah };
	struct ibv_recv_wr rwr = { .sg_list = sg, .num_sge = (int)s->cap.max_recv_sge + 1 }, *rbad;
	int err = post(s, &wr);

	must(s, err == EINVAL || err == ENOMEM); /* it may be full as well */
	if (!s->v.l->srq[s->s])
		must_eq(s, ibv_post_recv(s->qp, &rwr, &rbad), EINVAL);
}

static void too_much_inline(struct side *s)
{
	static char bytes[4096];
	struct ibv_sge sg = { (uintptr_t)bytes, s->cap.max_inline_data + 1, 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_INLINE,
				  .wr.ud.ah = s->ah };
	int err = post(s, &wr);

	must(s, err == EINVAL || err == ENOMEM);
}

static void unknown_opcode(struct side *s)
{
	struct ibv_send_wr wr = { .opcode = UNKNOWN_OPCODE };

	must_eq(s, post(s, &wr), EINVAL);
}

static void foreign_opcode(struct side *s)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ };

	if (!reliable(s->v.l))
		must_eq(s, post(s, &wr), EINVAL);
}

static void illegal_move(struct side *s)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	must_eq(s,
		ibv_modify_qp(
			s->qp, &a,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				(s->v.l->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
		EINVAL);
}

static void busy_objects(struct side *s)
{
	must_eq(s, ibv_destroy_cq(s->sbox->cq), EBUSY);
	must_eq(s, ibv_dealloc_pd(s->pr->pd), EBUSY);
	if (s->pool == &s->pr->pool)
		must_eq(s, ibv_destroy_srq(s->pr->pool.srq), EBUSY);
}

static void windows(struct side *s)
{
	if (s->v.l->type == IBV_QPT_RC)
		window_refused(s);
}

static void bad_memory(struct side *s)
{
	errno = 0;
	must(s, !ibv_reg_mr(s->pr->pd, s->mem, 64, IBV_ACCESS_REMOTE_WRITE));
	must_eq(s, errno, EINVAL);
}

static void bad_size(struct side *s)
{
	struct ibv_qp_init_attr a = { .send_cq = s->sbox->cq,
				      .recv_cq = s->rbox->cq,
				      .qp_type = s->v.l->type,
				      .cap = { .max_send_wr = 1 << 30 } };

	errno = 0;
	must(s, !ibv_create_qp(s->pr->pd, &a));
	must_eq(s, errno, EINVAL);
	must_eq(s, ibv_resize_cq(s->sbox->cq, 0), EINVAL);
}

static void no_address(struct side *s)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	int err;

	if (s->v.l->type != IBV_QPT_UD)
		return;
	err = post(s, &wr);
	must(s, err == EINVAL || err == ENOMEM);
}

static void no_batch(struct side *s)
{
	if (s->qpx)
		builder_refused(s, NULL);
}

static void (*const calls[])(struct side *s) = { too_many_sges,	 too_much_inline, unknown_opcode,
						 foreign_opcode, illegal_move,	  busy_objects,
						 bad_memory,	 bad_size,	  no_address,
						 no_batch,	 domain_refused,  windows };

void refused_call(struct side *s, unsigned int n)
{
	calls[n % (sizeof(calls) / sizeof(calls[0]))](s);
}

/* The first of the list is posted all the same. */
void refused_chain(struct side *s, struct ibv_send_wr *first)
{
	struct ibv_send_wr wr = { .opcode = UNKNOWN_OPCODE }, *bad = NULL;

	first->next = &wr;
	must_eq(s, ibv_post_send(s->qp, first, &bad), EINVAL);
	must(s, bad == &wr);
}
