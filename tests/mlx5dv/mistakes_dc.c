// SPDX-License-Identifier: MIT
/* Mistakes explained: dynamically connected QPs. The far side has a target with an SRQ, the near
 * side an initiator. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include "mlx5dv/dc_duo.h"
#include "verbs/mistake.h"

enum { LEN = 64, KEY = 0x1234567, INVALID = 0x8a, ACCESS = 0x88 };

#define DUO (&mistake.duo)

static struct dc_peer i;
static struct ibv_ah *ah;
static uint32_t rkey;

/* --- the far side: s->own[0] is the SRQ, s->own[1] the target --- */

static struct duo_answer far_make(struct side *s, const struct duo_order *o)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(s->dev.pd, &a);
	struct ibv_qp *qp;

	want(srq);
	qp = dc_target_make(&s->dev, s->ep.rcq, srq, KEY);
	s->own[0] = srq;
	s->own[1] = qp;
	if (o->len)
		dc_target_rtr(qp);
	return (struct duo_answer){ .found = true, .value = qp->qp_num };
}

static struct duo_answer far_receive(struct side *s, const struct duo_order *o)
{
	struct ibv_sge to = { (uintptr_t)s->mem, o->len, s->mr->lkey };
	struct ibv_recv_wr r = { .wr_id = 5, .sg_list = &to, .num_sge = 1 }, *bad;

	want_eq(ibv_post_srq_recv(s->own[0], &r, &bad), 0);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_destroy(struct side *s, const struct duo_order *o)
{
	(void)o;
	want_eq(ibv_destroy_qp(s->own[1]), 0);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_reset(struct side *s, const struct duo_order *o)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	(void)o;
	want_eq(ibv_modify_qp(s->own[1], &a, IBV_QP_STATE), 0);
	return (struct duo_answer){ .found = true };
}

/* --- the near side --- */

/* Tries three times. */
static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	want_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096 };
	want_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PATH_MTU), 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = (uint8_t)mistake_timeout(),
				  .retry_cnt = 2,
				  .rnr_retry = 2,
				  .max_rd_atomic = 4 };
	want_eq(ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_MAX_QP_RD_ATOMIC),
		0);
}

static void make_initiator(void)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_DRIVER,
		.cap = { .max_send_wr = 8, .max_send_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = DUO->near.dev.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE
	};
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					  .dc_init_attr = { .dc_type = MLX5DV_DCTYPE_DCI } };

	a.send_cq = a.recv_cq = DUO->near.ep.scq;
	i.qp = mlx5dv_create_qp(DUO->near.dev.ctx, &a, &dv);
	want(i.qp);
	i.ex = ibv_qp_to_qp_ex(i.qp);
	i.dv = mlx5dv_qp_ex_from_ibv_qp_ex(i.ex);
	to_rts(i.qp);
}

static void begin(bool ready)
{
	mistake_begin_rc();
	mistake_meet();
	make_initiator();
	ah = peer_ah(&DUO->near.dev, &DUO->near.ep.theirs);
	mistake.near_qp = i.qp->qp_num;
	mistake.far_qp = (uint32_t)duo_do(DUO, far_make, 0, ready, 0).value;
	rkey = mistake.rkey;
}

static void post(bool write, uint32_t dctn, uint64_t key)
{
	ibv_wr_start(i.ex);
	i.ex->wr_id = 1;
	i.ex->wr_flags = IBV_SEND_SIGNALED;
	if (write)
		ibv_wr_rdma_write(i.ex, rkey, mistake.far_va);
	else
		ibv_wr_send(i.ex);
	mlx5dv_wr_set_dc_addr(i.dv, ah, dctn, key);
	ibv_wr_set_sge(i.ex, mistake.lkey, mistake.va, LEN);
	want_eq(ibv_wr_complete(i.ex), 0);
}

static void fails(bool write, uint32_t dctn, uint64_t key, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	post(write, dctn, key);
	wc = duo_wc(DUO);
	want_eq(wc.wr_id, 1);
	want_eq(wc.status, status);
}

/* A WRITE has arrived: both know each other, and are connected. */
static void acquaint(void)
{
	post(true, mistake.far_qp, KEY);
	want_eq(duo_wc(DUO).status, IBV_WC_SUCCESS);
}

/* --- the connection --- */

static void wrong_access_key(int connected_before)
{
	begin(true);
	if (connected_before)
		acquaint();
	fails(false, mistake.far_qp, KEY + 1, IBV_WC_REM_ACCESS_ERR);
	NEAR("SEND of 64 B (wr_id 0x1) on QP 0x%x, refused by DC target 0x%x (vendor_err 0x88): "
	     "peer: "
	     "the access key is not the DC target's; give both sides the same (mlx5dv_create_qp, "
	     "mlx5dv_wr_set_dc_addr)",
	     mistake.near_qp, mistake.far_qp);
	FAR("DC target 0x%x refused initiator 0x%x: it names another access key; give both sides "
	    "the "
	    "same (mlx5dv_create_qp, mlx5dv_wr_set_dc_addr)",
	    mistake.far_qp, mistake.near_qp);
}

static void silent(uint32_t dctn, const char *why)
{
	fails(true, dctn, KEY, IBV_WC_RETRY_EXC_ERR);
	NEAR("RDMA WRITE of 64 B (wr_id 0x1) on QP 0x%x: no answer from DC target 0x%x after 3 "
	     "tries of 4.096 us * 2^%d (retry_cnt 2): %s",
	     mistake.near_qp, dctn, mistake_timeout(), why);
}

#define NO_QP "peer: there is no such QP; was it destroyed, or is the number wrong?"

/* Another host's softhca tells nobody of its queue pairs. */
static const char *unless_apart(const char *words)
{
	return mistake.apart ? "the softhca of 10.9.0.2 answers, the DC target does not; is it "
			       "there, and in RTR?"
			     : words;
}

static void target_that_was_destroyed(int connected_before)
{
	begin(true);
	if (connected_before)
		acquaint();
	duo_do(DUO, far_destroy, 0, 0, 0);
	silent(mistake.far_qp, unless_apart(NO_QP));
}

static void target_that_is_not_ready(int arg)
{
	(void)arg;
	begin(false);
	silent(mistake.far_qp, unless_apart("peer: the QP is in RESET; it needs RTR or RTS"));
}

static void target_that_was_reset(int arg)
{
	(void)arg;
	begin(true);
	acquaint();
	duo_do(DUO, far_reset, 0, 0, 0);
	silent(mistake.far_qp, unless_apart("peer: the QP is in RESET; it needs RTR or RTS"));
}

/* A number that the peer's process has given to nobody. */
static void number_of_nothing(int arg)
{
	(void)arg;
	begin(true);
	silent(mistake.far_qp ^ 0x100, unless_apart(NO_QP)); /* of the same process */
}

/* The number of a process that is not there. */
static void number_of_no_process(int arg)
{
	(void)arg;
	begin(true);
	silent(mistake.far_qp ^ 0x300000,
	       unless_apart("no process of this host has that number; has it ended, or is the "
			    "number wrong?"));
}

static void number_of_another_qp(int arg)
{
	(void)arg;
	begin(true);
	silent(DUO->near.ep.theirs.qpn,
	       unless_apart("peer: the QP of that number is no DC target; name one"));
}

static void process_has_ended(int arg)
{
	int pid;

	(void)arg;
	begin(true);
	acquaint();
	pid = DUO->pid;
	duo_kill(DUO);
	silent(mistake.far_qp,
	       mistake.apart ? "# packets left for 10.9.0.2, and nothing came back; does a program "
			       "run there, and is UDP port 4791 open both ways?"
			     : mistake_text("its process %d has ended; end the connection", pid));
}

/* --- what a target refuses --- */

static void unknown_rkey(int arg)
{
	(void)arg;
	begin(true);
	rkey ^= 0x5a;
	fails(true, mistake.far_qp, KEY, IBV_WC_REM_ACCESS_ERR);
	NEAR("RDMA WRITE of 64 B (wr_id 0x1) on QP 0x%x to 0x%llx, rkey 0x%x, refused by DC target "
	     "0x%x (vendor_err 0x88): peer: the rkey names no memory region (never registered, or "
	     "deregistered)",
	     mistake.near_qp, mistake.far_va, rkey, mistake.far_qp);
	FAR("RDMA WRITE of 64 B to 0x%llx by QP 0x%x refused by QP 0x%x: rkey 0x%x names no memory "
	    "region (never registered, or deregistered)" MISTAKE_GIVE,
	    mistake.far_va, mistake.near_qp, mistake.far_qp, rkey);
}

static void srq_is_empty(int arg)
{
	(void)arg;
	begin(true);
	fails(false, mistake.far_qp, KEY, IBV_WC_RNR_RETRY_EXC_ERR);
	NEAR("SEND of 64 B (wr_id 0x1) on QP 0x%x: DC target 0x%x had no receive posted at 3 tries "
	     "(rnr_retry 2): peer: its SRQ is empty; post more to it, and earlier",
	     mistake.near_qp, mistake.far_qp);
}

static void receive_too_small(int arg)
{
	(void)arg;
	begin(true);
	duo_do(DUO, far_receive, 0, 60, 0);
	fails(false, mistake.far_qp, KEY, IBV_WC_REM_INV_REQ_ERR);
	NEAR("SEND of 64 B (wr_id 0x1) on QP 0x%x, refused by DC target 0x%x (vendor_err 0x8a): "
	     "peer: "
	     "the receive has room for 60 B, at least 64 B arrived; post larger receives",
	     mistake.near_qp, mistake.far_qp);
	FAR("SEND to QP 0x%x brings at least 64 B, the receive has room for 60 B; post larger "
	    "receives",
	    mistake.far_qp);
}

static void lkey(int arg)
{
	(void)arg;
	begin(true);
	mistake.lkey ^= 0x5a;
	fails(true, mistake.far_qp, KEY, IBV_WC_LOC_PROT_ERR);
	NEAR("ibv_post_send: RDMA WRITE of 64 B (wr_id 0x1) on QP 0x%x: sge[0]: lkey 0x%x names no "
	     "memory region (never registered, or deregistered); use a key of the QP's PD that "
	     "covers the buffer",
	     mistake.near_qp, mistake.lkey);
}

/* --- calls --- */

static void address_forgotten(int arg)
{
	(void)arg;
	begin(true);
	ibv_wr_start(i.ex);
	ibv_wr_send(i.ex);
	ibv_wr_set_sge(i.ex, mistake.lkey, mistake.va, LEN);
	want_errno((errno = ibv_wr_complete(i.ex)), EINVAL);
	NEAR("ibv_wr_complete: a DC send on QP 0x%x has no address; call mlx5dv_wr_set_dc_addr",
	     mistake.near_qp);
}

static void no_ah(int arg)
{
	(void)arg;
	begin(true);
	ibv_wr_start(i.ex);
	ibv_wr_send(i.ex);
	mlx5dv_wr_set_dc_addr(i.dv, NULL, mistake.far_qp, KEY);
	ibv_wr_set_sge(i.ex, mistake.lkey, mistake.va, LEN);
	want_errno((errno = ibv_wr_complete(i.ex)), EINVAL);
	NEAR("ibv_wr_complete: the AH of a DC send on QP 0x%x is NULL; set it by "
	     "mlx5dv_wr_set_dc_addr",
	     mistake.near_qp);
}

static void address_before_the_operation(int arg)
{
	(void)arg;
	begin(true);
	ibv_wr_start(i.ex);
	mlx5dv_wr_set_dc_addr(i.dv, ah, mistake.far_qp, KEY);
	want_errno((errno = ibv_wr_complete(i.ex)), EINVAL);
	NEAR("mlx5dv_wr_set_dc_addr: no operation on QP 0x%x waits for an address; each takes one, "
	     "after its ibv_wr_ call",
	     mistake.near_qp);
}

static void posted_as_a_list(int arg)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	(void)arg;
	begin(true);
	want_eq(ibv_post_send(i.qp, &wr, &bad), EINVAL);
	NEAR("ibv_post_send: QP 0x%x is a DC initiator, whose sends need an address; use ibv_wr_ "
	     "calls "
	     "and mlx5dv_wr_set_dc_addr",
	     mistake.near_qp);
}

static void receive_on_an_initiator(int arg)
{
	struct ibv_recv_wr r = { 0 }, *bad;

	(void)arg;
	begin(true);
	want_eq(ibv_post_recv(i.qp, &r, &bad), EINVAL);
	NEAR("ibv_post_recv: QP 0x%x has no receive queue of its own; it only sends",
	     mistake.near_qp);
}

static void target_without_an_srq(int arg)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_DRIVER,
					 .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					  .dc_init_attr = { .dc_type = MLX5DV_DCTYPE_DCT } };

	(void)arg;
	begin(true);
	a.pd = DUO->near.dev.pd;
	a.send_cq = a.recv_cq = DUO->near.ep.scq;
	want_null(mlx5dv_create_qp(DUO->near.dev.ctx, &a, &dv), EINVAL);
	NEAR("mlx5dv_create_qp: a DCT with comp_mask 0x1, 0x2 of mlx5dv, create_flags 0x0 and no "
	     "SRQ; "
	     "it takes a PD, an SRQ and the two flags of scatter to CQE");
	dv.comp_mask = 0;
	want_null(mlx5dv_create_qp(DUO->near.dev.ctx, &a, &dv), EINVAL);
	NEAR("mlx5dv_create_qp: qp_type 255 without MLX5DV_QP_INIT_ATTR_MASK_DC; IBV_QPT_DRIVER "
	     "and a "
	     "dc_type go together");
	dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
	dv.dc_init_attr.dc_type = 7;
	want_null(mlx5dv_create_qp(DUO->near.dev.ctx, &a, &dv), EINVAL);
	NEAR("mlx5dv_create_qp: dc_type 7 is neither MLX5DV_DCTYPE_DCT nor MLX5DV_DCTYPE_DCI; use "
	     "one of these");
}

static void initiator_towards_a_peer(int arg)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	(void)arg;
	begin(true);
	want_eq(ibv_modify_qp(i.qp, &a, IBV_QP_STATE), 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 };
	want_eq(ibv_modify_qp(i.qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096 };
	want_errno(ibv_modify_qp(i.qp, &a, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN),
		   EINVAL);
	NEAR("ibv_modify_qp: QP 0x%x: INIT to RTR of DC initiator QPs does not take "
	     "IBV_QP_DEST_QPN; "
	     "leave it out of attr_mask",
	     mistake.near_qp);
}

static const struct test_case cases[] = {
	{ "wrong_access_key (at first)", wrong_access_key, false },
	{ "wrong_access_key (later)", wrong_access_key, true },
	{ "target_that_was_destroyed (before)", target_that_was_destroyed, false },
	{ "target_that_was_destroyed (while connected)", target_that_was_destroyed, true },
	CASE(target_that_is_not_ready),
	CASE(target_that_was_reset),
	CASE(number_of_nothing),
	CASE(number_of_no_process),
	CASE(number_of_another_qp),
	CASE(process_has_ended),
	CASE(unknown_rkey),
	CASE(srq_is_empty),
	CASE(receive_too_small),
	CASE(lkey),
	CASE(address_forgotten),
	CASE(no_ah),
	CASE(address_before_the_operation),
	CASE(posted_as_a_list),
	CASE(receive_on_an_initiator),
	CASE(target_without_an_srq),
	CASE(initiator_towards_a_peer),
};

int main(int argc, char **argv)
{
	return MISTAKES(argc, argv, cases);
}
