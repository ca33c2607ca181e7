// SPDX-License-Identifier: MIT
/* Mistakes explained: XRC. The far side has the domain, an SRQ in it and the target QP, the near
 * side an XRC_SEND QP. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include "verbs/mistake.h"

enum { LEN = 64, INVALID = 0x8a, ACCESS = 0x88, FAR_AWAY = 0x5a0 };

#define DUO (&mistake.duo)

enum far_thing { DOMAIN, SRQ, TARGET, OTHER_SRQ };

static struct ibv_sge sg;
static struct ibv_send_wr wr;
static uint32_t srqn;

/* --- both sides --- */

static struct ibv_xrcd *domain(struct peer_dev *d)
{
	struct ibv_xrcd_init_attr a = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1,
					O_CREAT };
	struct ibv_xrcd *x = ibv_open_xrcd(d->ctx, &a);

	want(x);
	return x;
}

static struct ibv_srq_init_attr_ex srq_attr(struct peer_dev *d, struct ibv_xrcd *x,
					    struct ibv_cq *cq)
{
	return (struct ibv_srq_init_attr_ex){ .attr = { .max_wr = 4, .max_sge = 1 },
					      .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
							   IBV_SRQ_INIT_ATTR_PD |
							   IBV_SRQ_INIT_ATTR_XRCD |
							   IBV_SRQ_INIT_ATTR_CQ,
					      .srq_type = IBV_SRQT_XRC,
					      .pd = d->pd,
					      .xrcd = x,
					      .cq = cq };
}

static struct ibv_srq *new_srq(struct peer_dev *d, struct ibv_xrcd *x, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex a = srq_attr(d, x, cq);
	struct ibv_srq *srq = ibv_create_srq_ex(d->ctx, &a);

	want(srq);
	return srq;
}

static struct ibv_qp *new_target(struct peer_dev *d, struct ibv_xrcd *x)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = x };
	struct ibv_qp *qp = ibv_create_qp_ex(d->ctx, &a);

	want(qp);
	return qp;
}

static uint32_t number_of(struct ibv_srq *srq)
{
	uint32_t n;

	want_eq(ibv_get_srq_num(srq, &n), 0);
	return n;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags =
					 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

	want_eq(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
}

static void to_rtr(struct ibv_qp *qp, uint32_t dest, const union ibv_gid *gid)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = *gid, .sgid_index = PEER_GID_INDEX, .hop_limit = 1 } }
	};

	want_eq(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN |
				      (qp->qp_type == IBV_QPT_XRC_RECV
					       ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
					       : 0)),
		0);
}

/* Tries three times. */
static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
				 .timeout = (uint8_t)mistake_timeout(),
				 .retry_cnt = 2,
				 .rnr_retry = 2,
				 .max_rd_atomic = 4 };

	want_eq(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
		0);
}

/* --- the far side --- */

/* Makes its three things. Answers the numbers of target QP and SRQ. */
static struct duo_answer far_make(struct side *s, const struct duo_order *o)
{
	struct ibv_xrcd *x = domain(&s->dev);
	struct ibv_srq *srq = new_srq(&s->dev, x, s->ep.rcq);
	struct ibv_qp *qp = new_target(&s->dev, x);

	(void)o;
	s->own[DOMAIN] = x;
	s->own[SRQ] = srq;
	s->own[TARGET] = qp;
	to_init(qp);
	return (struct duo_answer){ .found = true,
				    .value = (uint64_t)qp->qp_num << 32 | number_of(srq) };
}

static struct duo_answer far_ready(struct side *s, const struct duo_order *o)
{
	to_rtr(s->own[TARGET], (uint32_t)o->id, &s->ep.theirs.gid);
	return (struct duo_answer){ .found = true };
}

/* Posts a receive of @len bytes to its SRQ. */
static struct duo_answer far_receive(struct side *s, const struct duo_order *o)
{
	struct ibv_sge to = { (uintptr_t)s->mem, o->len, s->mr->lkey };
	struct ibv_recv_wr r = { .wr_id = 5, .sg_list = &to, .num_sge = 1 }, *bad;

	want_eq(ibv_post_srq_recv(s->own[SRQ], &r, &bad), 0);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_destroy_srq(struct side *s, const struct duo_order *o)
{
	(void)o;
	want_eq(ibv_destroy_srq(s->own[SRQ]), 0);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_destroy_target(struct side *s, const struct duo_order *o)
{
	(void)o;
	want_eq(ibv_destroy_qp(s->own[TARGET]), 0);
	return (struct duo_answer){ .found = true };
}

/* The whole domain ends. */
static struct duo_answer far_close(struct side *s, const struct duo_order *o)
{
	far_destroy_srq(s, o);
	far_destroy_target(s, o);
	want_eq(ibv_close_xrcd(s->own[DOMAIN]), 0);
	return (struct duo_answer){ .found = true };
}

/* Answers the number of an SRQ in another domain. */
static struct duo_answer far_other_srq(struct side *s, const struct duo_order *o)
{
	struct ibv_srq *srq = new_srq(&s->dev, domain(&s->dev), s->ep.rcq);

	(void)o;
	return (struct duo_answer){ .found = true, .value = number_of(srq) };
}

/* Answers the number of an SRQ that is in no domain. */
static struct duo_answer far_plain_srq(struct side *s, const struct duo_order *o)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(s->dev.pd, &a);

	(void)o;
	want(srq);
	return (struct duo_answer){ .found = true, .value = number_of(srq) };
}

static uint64_t far_do(duo_fn fn, uint32_t len)
{
	return duo_do(DUO, fn, 0, len, 0).value;
}

/* --- the near side --- */

static void begin(bool ready)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_SEND,
					 .comp_mask = IBV_QP_INIT_ATTR_PD,
					 .cap = { .max_send_wr = 8, .max_send_sge = 1 } };
	struct peer_ep *ep = &mistake.duo.near.ep;
	uint64_t numbers;

	mistake_begin_rc();
	mistake_meet();
	a.pd = DUO->near.dev.pd;
	a.send_cq = ep->scq;
	ep->qp = ibv_create_qp_ex(DUO->near.dev.ctx, &a);
	want(ep->qp);
	numbers = far_do(far_make, 0);
	mistake.near_qp = ep->qp->qp_num;
	mistake.far_qp = (uint32_t)(numbers >> 32);
	srqn = (uint32_t)numbers;
	if (ready)
		duo_do(DUO, far_ready, 0, 0, mistake.near_qp);
	to_init(ep->qp);
	to_rtr(ep->qp, mistake.far_qp, &ep->theirs.gid);
	to_rts(ep->qp);
}

static void prepare(enum ibv_wr_opcode op, uint32_t srq)
{
	wr = duo_wr(DUO, op, &sg, LEN);
	wr.qp_type.xrc.remote_srqn = srq;
}

static void not_in_the_domain(uint32_t number)
{
	char *words = mistake_text("SRQ 0x%x is not in the XRC domain of the QP; name one that is "
				   "(ibv_get_srq_num)",
				   number);

	prepare(IBV_WR_SEND, number);
	mistake_fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	mistake_refused("SEND", &wr, INVALID, words);
	FAR("SEND of 64 B by QP 0x%x refused by QP 0x%x: %s", mistake.near_qp, mistake.far_qp,
	    words);
}

/* --- which SRQ --- */

static void srq_number_of_nobody(int arg)
{
	(void)arg;
	begin(true);
	not_in_the_domain(srqn + FAR_AWAY);
}

static void srq_of_another_domain(int arg)
{
	(void)arg;
	begin(true);
	not_in_the_domain((uint32_t)far_do(far_other_srq, 0));
}

/* A number that no process of its host has: nobody answers. */
static void number_of_no_process(uint32_t number)
{
	prepare(IBV_WR_SEND, number);
	mistake_fails(&wr, IBV_WC_RETRY_EXC_ERR);
	NEAR("SEND of 64 B (wr_id 0x1) on QP 0x%x: no answer from QP 0x%x after 3 tries of 4.096 "
	     "us * 2^%d (retry_cnt 2): %s",
	     mistake.near_qp, mistake.far_qp, mistake_timeout(),
	     mistake.apart ? mistake_text("the softhca of 10.9.0.2 answers, the QP does not; is it "
					  "there, in RTR or RTS, connected to this QP and address, "
					  "and does a process there have SRQ 0x%x?",
					  number)
			   : mistake_text("no process of this host has SRQ 0x%x; has it ended, or "
					  "is xrc.remote_srqn wrong (ibv_get_srq_num)?",
					  number));
}

static void srq_in_no_domain(int arg)
{
	(void)arg;
	mistake_avoid_slot_0();
	begin(true);
	number_of_no_process((uint32_t)far_do(far_plain_srq, 0));
}

static void srq_that_was_destroyed(int arg)
{
	(void)arg;
	begin(true);
	far_do(far_destroy_srq, 0);
	not_in_the_domain(srqn);
}

static void srq_number_forgotten(int arg)
{
	(void)arg;
	mistake_avoid_slot_0();
	begin(true);
	number_of_no_process(0);
}

static void srq_is_empty(int arg)
{
	(void)arg;
	begin(true);
	prepare(IBV_WR_SEND, srqn);
	mistake_fails(&wr, IBV_WC_RNR_RETRY_EXC_ERR);
	NEAR("SEND of 64 B (wr_id 0x1) on QP 0x%x: QP 0x%x had no receive posted at 3 tries "
	     "(rnr_retry 2): peer: its SRQ is empty; post more to it, and earlier",
	     mistake.near_qp, mistake.far_qp);
}

static void receive_too_small(int arg)
{
	(void)arg;
	begin(true);
	far_do(far_receive, 60);
	prepare(IBV_WR_SEND, srqn);
	mistake_fails(&wr, IBV_WC_REM_INV_REQ_ERR);
	want_eq(duo_far_wc(DUO).status, IBV_WC_LOC_LEN_ERR);
	mistake_refused("SEND", &wr, INVALID,
			"the receive has room for 60 B, at least 64 B arrived; post larger "
			"receives");
	FAR("SEND to QP 0x%x brings at least 64 B, the receive has room for 60 B; post larger "
	    "receives",
	    mistake.far_qp);
}

static void unknown_rkey(int arg)
{
	(void)arg;
	begin(true);
	prepare(IBV_WR_RDMA_WRITE, srqn);
	wr.wr.rdma.rkey ^= 0x5a;
	mistake_fails(&wr, IBV_WC_REM_ACCESS_ERR);
	mistake_refused("RDMA WRITE", &wr, ACCESS,
			"the rkey names no memory region (never registered, or deregistered)");
	mistake_far_says("RDMA WRITE", LEN, wr.wr.rdma.remote_addr,
			 mistake_text("rkey 0x%x names no memory region (never registered, or "
				      "deregistered)" MISTAKE_GIVE,
				      wr.wr.rdma.rkey));
}

/* --- the target QP --- */

static void silent(const char *why)
{
	prepare(IBV_WR_RDMA_WRITE, srqn);
	mistake_fails(&wr, IBV_WC_RETRY_EXC_ERR);
	mistake_silent(why);
}

/* Between hosts nobody says that a number is nobody's, or in which state it is. */
static const char *unless_apart(const char *words)
{
	if (!mistake.apart)
		return words;
	return mistake_text(
		"the softhca of 10.9.0.2 answers, the QP does not; is it there, in RTR or "
		"RTS, connected to this QP and address, and does a process there have "
		"SRQ 0x%x?",
		srqn);
}

static void target_in_init(int arg)
{
	(void)arg;
	begin(false);
	silent(unless_apart("peer: the QP is in INIT; it needs RTR or RTS"));
}

static void target_that_was_destroyed(int arg)
{
	(void)arg;
	begin(true);
	far_do(far_destroy_target, 0);
	silent(unless_apart(
		"peer: there is no such QP; was it destroyed, or is the number wrong?"));
}

static void domain_that_was_closed(int arg)
{
	(void)arg;
	begin(true);
	far_do(far_close, 0);
	silent(unless_apart(
		"peer: there is no such QP; was it destroyed, or is the number wrong?"));
}

static void target_of_another_sender(int arg)
{
	(void)arg;
	begin(false);
	duo_do(DUO, far_ready, 0, 0, mistake.near_qp + 1);
	silent(unless_apart("peer: the QP is connected to another one; give it this one's number "
			    "and address"));
}

/* --- calls --- */

static void says_here(int arg)
{
	(void)arg;
	mistake_begin_rc();
}

static void srq_without_a_domain(int arg)
{
	struct peer_dev *d = &mistake.duo.near.dev;
	struct ibv_srq_init_attr_ex a;

	says_here(arg);
	a = srq_attr(d, NULL, DUO->near.ep.scq);
	a.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_XRCD;
	want_null(ibv_create_srq_ex(d->ctx, &a), EINVAL);
	NEAR("ibv_create_srq_ex: comp_mask 0xb of an XRC SRQ; it needs pd, xrcd and cq, and "
	     "nothing "
	     "else (0xf)");
}

static void srq_without_a_cq(int arg)
{
	struct peer_dev *d = &mistake.duo.near.dev;
	struct ibv_srq_init_attr_ex a;

	says_here(arg);
	a = srq_attr(d, domain(d), NULL);
	a.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ;
	want_null(ibv_create_srq_ex(d->ctx, &a), EINVAL);
	NEAR("ibv_create_srq_ex: comp_mask 0x7 of an XRC SRQ; it needs pd, xrcd and cq, and "
	     "nothing "
	     "else (0xf)");
}

static void srq_in_a_closed_domain(int arg)
{
	struct peer_dev *d = &mistake.duo.near.dev;
	struct ibv_srq_init_attr_ex a;
	struct ibv_xrcd *x;

	says_here(arg);
	x = domain(d);
	a = srq_attr(d, x, DUO->near.ep.scq);
	want_eq(ibv_close_xrcd(x), 0);
	want_null(ibv_create_srq_ex(d->ctx, &a), ENOENT);
	NEAR("ibv_create_srq_ex: the XRC domain at 0x%llx is not alive: it was closed already (XRC "
	     "domain); forget the pointer when the object ends",
	     (unsigned long long)(uintptr_t)x);
}

static void domain_closed_in_use(int arg)
{
	struct peer_dev *d = &mistake.duo.near.dev;
	struct ibv_xrcd *x;
	uint32_t srq, qp;

	says_here(arg);
	x = domain(d);
	srq = number_of(new_srq(d, x, DUO->near.ep.scq));
	want_errno(ibv_close_xrcd(x), EBUSY);
	NEAR("ibv_close_xrcd: the XRC domain is in use by 1 object (SRQ 0x%x); destroy it first",
	     srq);
	qp = new_target(d, x)->qp_num;
	want_errno(ibv_close_xrcd(x), EBUSY);
	NEAR("ibv_close_xrcd: the XRC domain is in use by 2 objects (SRQ 0x%x, QP 0x%x); destroy "
	     "them first",
	     srq, qp);
}

static void target_without_a_domain(int arg)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV };

	says_here(arg);
	want_null(ibv_create_qp_ex(DUO->near.dev.ctx, &a), EINVAL);
	NEAR("ibv_create_qp_ex: an XRC_RECV QP belongs to an XRC domain, and comp_mask 0x0 names "
	     "none; "
	     "set IBV_QP_INIT_ATTR_XRCD and xrcd");
}

static void open_target(int type)
{
	struct peer_dev *d = &mistake.duo.near.dev;
	struct ibv_qp_open_attr a = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						   IBV_QP_OPEN_ATTR_TYPE,
				      .qp_type = (enum ibv_qp_type)type };
	struct ibv_qp *qp;

	says_here(type);
	a.xrcd = domain(d);
	qp = new_target(d, a.xrcd);
	a.qp_num = qp->qp_num + (type == IBV_QPT_XRC_RECV);
	want_null(ibv_open_qp(d->ctx, &a), EINVAL);
	if (type == IBV_QPT_XRC_RECV)
		NEAR("ibv_open_qp: the XRC domain has no QP 0x%x; give the number of one that a "
		     "member made and that is not destroyed",
		     a.qp_num);
	else
		NEAR("ibv_open_qp: qp_type 2 (RC); only XRC_RECV QPs are in an XRC domain");
}

static void open_target_of_another_domain(int arg)
{
	struct peer_dev *d = &mistake.duo.near.dev;
	struct ibv_qp_open_attr a = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						   IBV_QP_OPEN_ATTR_TYPE,
				      .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp *qp;

	says_here(arg);
	a.xrcd = domain(d);
	qp = new_target(d, domain(d));
	a.qp_num = qp->qp_num;
	want_null(ibv_open_qp(d->ctx, &a), EINVAL);
	NEAR("ibv_open_qp: the XRC domain has no QP 0x%x; give the number of one that a member "
	     "made and "
	     "that is not destroyed",
	     a.qp_num);
}

static void queues_of_a_target(int send)
{
	struct peer_dev *d = &mistake.duo.near.dev;
	struct ibv_recv_wr r = { 0 }, *rbad;
	struct ibv_send_wr s = { .opcode = IBV_WR_SEND }, *sbad;
	struct ibv_qp *qp;

	says_here(send);
	qp = new_target(d, domain(d));
	want_eq(send ? ibv_post_send(qp, &s, &sbad) : ibv_post_recv(qp, &r, &rbad), EINVAL);
	if (send)
		NEAR("ibv_post_send: QP 0x%x is of type XRC_RECV, which only receives; send by one "
		     "that sends",
		     qp->qp_num);
	else
		NEAR("ibv_post_recv: QP 0x%x has no receive queue of its own; post to the SRQs "
		     "that its messages name (ibv_post_srq_recv)",
		     qp->qp_num);
}

static void xrc_srq_on_rc(int arg)
{
	struct peer_dev *d = &mistake.duo.near.dev;
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };

	says_here(arg);
	a.send_cq = a.recv_cq = DUO->near.ep.scq;
	a.srq = new_srq(d, domain(d), a.send_cq);
	want_null(ibv_create_qp(d->pd, &a), EINVAL);
	NEAR("ibv_create_qp: SRQ 0x%x is an XRC SRQ; RC QPs take basic ones", number_of(a.srq));
}

static void receive_on_a_sender(int arg)
{
	struct ibv_recv_wr r = { 0 }, *bad;

	(void)arg;
	begin(true);
	want_eq(ibv_post_recv(DUO->near.ep.qp, &r, &bad), EINVAL);
	NEAR("ibv_post_recv: QP 0x%x has no receive queue of its own; it only sends",
	     mistake.near_qp);
}

static void domain_of_a_closed_file(int arg)
{
	struct ibv_xrcd_init_attr a = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, 1000,
					O_CREAT };

	says_here(arg);
	want_null(ibv_open_xrcd(DUO->near.dev.ctx, &a), EBADF);
	NEAR("ibv_open_xrcd: fd 1000 is not open; give an open file's, or -1");
	a.comp_mask = 0;
	want_null(ibv_open_xrcd(DUO->near.dev.ctx, &a), EINVAL);
	NEAR("ibv_open_xrcd: comp_mask 0x0; fd and oflags are both needed (0x3)");
}

static const struct test_case cases[] = {
	CASE(srq_number_of_nobody),
	CASE(srq_of_another_domain),
	CASE(srq_in_no_domain),
	CASE(srq_that_was_destroyed),
	CASE(srq_number_forgotten),
	CASE(srq_is_empty),
	CASE(receive_too_small),
	CASE(unknown_rkey),
	CASE(target_in_init),
	CASE(target_that_was_destroyed),
	CASE(domain_that_was_closed),
	CASE(target_of_another_sender),
	CASE(srq_without_a_domain),
	CASE(srq_without_a_cq),
	CASE(srq_in_a_closed_domain),
	CASE(domain_closed_in_use),
	CASE(target_without_a_domain),
	{ "open_target (a wrong number)", open_target, IBV_QPT_XRC_RECV },
	{ "open_target (a wrong type)", open_target, IBV_QPT_RC },
	CASE(open_target_of_another_domain),
	{ "queues_of_a_target (send)", queues_of_a_target, 1 },
	{ "queues_of_a_target (receive)", queues_of_a_target, 0 },
	CASE(xrc_srq_on_rc),
	CASE(receive_on_a_sender),
	CASE(domain_of_a_closed_file),
};

int main(int argc, char **argv)
{
	return MISTAKES(argc, argv, cases);
}
