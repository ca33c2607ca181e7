// SPDX-License-Identifier: MIT
/* XRC: both processes share one domain. A side sends by its QP and receives by its target QP into
 * an SRQ of its own. The peer opens the target QP as well, so that it lives on without its maker's
 * handle. */
#include <errno.h>
#include <fcntl.h>
#include "property/side.h"

static bool is_xrc(const struct side *s)
{
	return s->v.l->type == IBV_QPT_XRC_SEND;
}

void domain_open(struct process *pr)
{
	struct ibv_xrcd_init_attr a = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					board->domain, O_CREAT };

	pr->xrcd = ibv_open_xrcd(pr->ctx, &a);
	if (!pr->xrcd)
		board_fail("ibv_open_xrcd: errno %d", errno);
}

void domain_close(struct process *pr)
{
	if (ibv_close_xrcd(pr->xrcd))
		board_fail("process %u: the XRC domain stays in use", pr->number);
}

void domain_create(struct side *s)
{
	struct ibv_qp_init_attr_ex a = { .qp_context = s,
					 .qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = s->pr->xrcd };

	if (!is_xrc(s))
		return;
	s->target = ibv_create_qp_ex(s->pr->ctx, &a);
	if (!s->target)
		board_fail("ibv_create_qp_ex, XRC_RECV: errno %d", errno);
}

void domain_publish(struct side *s)
{
	struct address *a = &board->seat[s->link][s->s].addr;

	if (!is_xrc(s))
		return;
	a->target = s->target->qp_num;
	must_eq(s, ibv_get_srq_num(s->pool->srq, &a->srqn), 0);
}

void domain_to(struct side *s, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = { .qp_state = to };

	if (s->target)
		must_eq(s, ibv_modify_qp(s->target, &a, IBV_QP_STATE), 0);
}

void domain_init(struct side *s)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						    IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC };

	if (!is_xrc(s))
		return;
	if (!s->target) /* it was let go, and the other side has destroyed it */
		domain_create(s);
	must_eq(s,
		ibv_modify_qp(s->target, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
}

/* @own: it is this side's, so are its events; those of the peer's count for nobody. */
static struct ibv_qp *open_one(struct side *s, uint32_t qpn, enum ibv_qp_type type, bool own)
{
	struct ibv_qp_open_attr a = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						   IBV_QP_OPEN_ATTR_CONTEXT | IBV_QP_OPEN_ATTR_TYPE,
				      .qp_num = qpn,
				      .xrcd = s->pr->xrcd,
				      .qp_context = own ? s : NULL,
				      .qp_type = type };

	errno = 0;
	return ibv_open_qp(s->pr->ctx, &a);
}

void domain_up(struct side *s)
{
	struct ibv_qp_attr a;

	if (!is_xrc(s))
		return;
	a = connect_rtr(s, s->peer.qpn);
	must_eq(s,
		ibv_modify_qp(s->target, &a,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER),
		0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 12, .sq_psn = s->psn };
	must_eq(s, ibv_modify_qp(s->target, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN), 0);
	s->borrowed = open_one(s, s->peer.target, IBV_QPT_XRC_RECV, false);
	must(s, s->borrowed || s->v.they_break);
}

/* What the other side does to it may go wrong. */
static void check_state(struct side *s, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	must_eq(s, ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	if (!s->v.they_break && !s->v.i_break)
		must(s, a.qp_state == IBV_QPS_RTS || a.qp_state == IBV_QPS_RTR);
}

/* Its handle goes while the peer has one, and comes again. */
static void let_go(struct side *s)
{
	uint32_t qpn = s->target->qp_num;

	must_eq(s, ibv_destroy_qp(s->target), 0);
	s->target = open_one(s, qpn, IBV_QPT_XRC_RECV, true);
	if (!s->target) {
		must(s, s->v.they_break);
		must_eq(s, errno, EINVAL);
	}
}

void domain_step(struct side *s, unsigned int n)
{
	struct ibv_qp *qp;

	if (!s->target)
		return;
	if (n == 0 && !s->moved) {
		let_go(s);
	} else if (n == 1) {
		qp = open_one(s, s->target->qp_num, IBV_QPT_XRC_RECV, true);
		must(s, qp);
		must_eq(s, ibv_destroy_qp(s->target), 0);
		s->target = qp;
	} else {
		qp = open_one(s, s->peer.target, IBV_QPT_XRC_RECV, false);
		must(s, qp || s->v.they_break);
		if (!qp)
			return;
		check_state(s, qp);
		must_eq(s, ibv_destroy_qp(qp), 0);
	}
	if (s->target)
		check_state(s, s->target);
}

void domain_refused(struct side *s)
{
	struct ibv_recv_wr wr = { 0 }, *bad = NULL;
	struct ibv_send_wr swr = { .opcode = IBV_WR_SEND }, *sbad = NULL;

	if (!is_xrc(s))
		return;
	must(s, !open_one(s, s->qp->qp_num, IBV_QPT_XRC_RECV, true)); /* is in no domain */
	must_eq(s, errno, EINVAL);
	must_eq(s, ibv_close_xrcd(s->pr->xrcd), EBUSY);
	if (!s->target)
		return;
	must(s, !open_one(s, s->target->qp_num, IBV_QPT_RC, true));
	must_eq(s, errno, EINVAL);
	must_eq(s, ibv_post_recv(s->target, &wr, &bad), EINVAL);
	must_eq(s, ibv_post_send(s->target, &swr, &sbad), EINVAL);
}

void domain_return(struct side *s)
{
	if (s->borrowed)
		must_eq(s, ibv_destroy_qp(s->borrowed), 0);
	s->borrowed = NULL;
}

void domain_destroy(struct side *s)
{
	domain_return(s);
	if (s->target)
		must_eq(s, ibv_destroy_qp(s->target), 0);
	s->target = NULL;
}
