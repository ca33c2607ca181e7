// SPDX-License-Identifier: MIT
/* Queue pairs that stop at a wrong signature (MLX5DV_QP_CREATE_SIG_PIPELINING): what has gone by
 * then and what has not, the event, work requests that are taken back, and going on. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "blocks.h"
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum { WHOLE, PACKETS /* segments of a packet each, some of them lost */ };
enum { BLOCK = 512, SIGNED = BLOCK + 4, BLOCKS = 9, FROM = 0, TO = 16384, BYTES = 32768 };
enum {
	DATA = 1, /* wr_id of what goes through the mkey */
	ANSWER = 2,
	AFTER = 3,
};

static struct peer_dev dev;
static uint8_t *mem;
static struct ibv_mr *mr;
static struct mlx5dv_mkey *mkey;
static struct peer_ep a, b;

static struct ibv_qp *make_qp(struct peer_ep *ep, enum ibv_qp_type type, uint32_t flags)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = type,
					    .cap = { 16, 16, 2, 2, 512 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD |
							 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_SEND,
					    .pd = dev.pd,
					    .send_cq = ep->scq,
					    .recv_cq = ep->rcq };
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS |
			     (type == IBV_QPT_RC ? MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS : 0),
		.create_flags = flags,
		.send_ops_flags = MLX5DV_QP_EX_WITH_MKEY_CONFIGURE,
	};

	return mlx5dv_create_qp(dev.ctx, &attr, &dv);
}

static void endpoint(struct peer_ep *ep, uint32_t flags)
{
	ep->scq = ep->rcq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	want(ep->scq);
	ep->qp = make_qp(ep, IBV_QPT_RC, flags);
	want(ep->qp);
	ep->mine = (struct peer_addr){ .qpn = ep->qp->qp_num, .psn = 7, .gid = dev.gid };
}

/* CRC32 in memory; on the wire, data alone */
static void configure(void)
{
	struct mlx5dv_qp_ex *dv = mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_to_qp_ex(a.qp));
	struct blocks blocks = { CRC32, MLX5DV_BLOCK_SIZE_512, true };
	struct mlx5dv_mkey_conf_attr none = { 0 };
	struct ibv_sge sg = { (uintptr_t)mem + FROM, BLOCKS * SIGNED, mr->lkey };
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a.qp);
	struct blocks_attr attr;
	struct mlx5dv_sig_block_attr sig = { .mem = blocks_domain(&blocks, &attr),
					     .check_mask = 0xff };
	uint8_t data[BLOCKS * BLOCK];
	struct ibv_wc wc;

	pattern_fill(data, sizeof(data), 1, 0);
	want_eq(blocks_stream(&blocks, data, sizeof(data), mem + FROM), BLOCKS * SIGNED);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	mlx5dv_wr_mkey_configure(dv, mkey, 3, &none);
	mlx5dv_wr_set_mkey_access_flags(dv, IBV_ACCESS_LOCAL_WRITE);
	mlx5dv_wr_set_mkey_layout_list(dv, 1, &sg);
	mlx5dv_wr_set_mkey_sig_block(dv, &sig);
	want_eq(ibv_wr_complete(ex), 0);
	peer_poll_ok(a.scq, &wc);
}

static void begin_with(int how, uint32_t flags)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .mtu = IBV_MTU_1024 };
	struct mlx5dv_mkey_init_attr ma = { NULL,
					    MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
						    MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE,
					    4 };

	if (how == PACKETS)
		want_eq(setenv("SOFTHCA_FAULT", "seed=5,loss=10%", 1), 0);
	said_begin();
	peer_open(&dev);
	mem = peer_memory(BYTES, false);
	mr = ibv_reg_mr(dev.pd, mem, BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	want(mr);
	endpoint(&a, flags);
	endpoint(&b, 0);
	a.theirs = b.mine;
	b.theirs = a.mine;
	peer_connect(&a, &o);
	peer_connect(&b, &o);
	ma.pd = dev.pd;
	mkey = mlx5dv_create_mkey(&ma);
	want(mkey);
	configure();
}

static void begin(int how)
{
	begin_with(how, MLX5DV_QP_CREATE_SIG_PIPELINING);
}

static void post(uint64_t id, enum ibv_wr_opcode op, struct ibv_sge sg, unsigned int flags)
{
	struct ibv_send_wr wr = { .wr_id = id,
				  .opcode = op,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = flags,
				  .wr.rdma = { (uintptr_t)mem + TO, mr->rkey } },
			   *bad;

	want_eq(ibv_post_send(a.qp, &wr, &bad), 0);
}

static void post_data(enum ibv_wr_opcode op, unsigned int flags)
{
	post(DATA, op, (struct ibv_sge){ 0, BLOCKS * BLOCK, mkey->lkey }, flags);
}

static void post_answer(uint64_t id, unsigned int flags)
{
	post(id, IBV_WR_SEND, (struct ibv_sge){ (uintptr_t)mem + TO, 16, mr->lkey },
	     flags | IBV_SEND_SIGNALED);
}

/* A READ of @bytes through the mkey, and an answer that is fenced: by one call, so that the answer
 * waits already when the first of the READ comes. */
static void post_read_and_answer(uint32_t bytes)
{
	struct ibv_sge data = { 0, bytes, mkey->lkey };
	struct ibv_sge sg = { (uintptr_t)mem + TO, 16, mr->lkey };
	struct ibv_send_wr answer = { .wr_id = ANSWER,
				      .opcode = IBV_WR_SEND,
				      .sg_list = &sg,
				      .num_sge = 1,
				      .send_flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED };
	struct ibv_send_wr read = { .wr_id = DATA,
				    .next = &answer,
				    .opcode = IBV_WR_RDMA_READ,
				    .sg_list = &data,
				    .num_sge = 1,
				    .send_flags = IBV_SEND_SIGNALED,
				    .wr.rdma = { (uintptr_t)mem + TO, mr->rkey } };
	struct ibv_send_wr *bad;

	want_eq(ibv_post_send(a.qp, &read, &bad), 0);
}

static void receive(void)
{
	struct ibv_sge sg = { (uintptr_t)mem + TO + 8192, 64, mr->lkey };

	peer_recv(&b, 9, &sg, 1);
}

static void want_done(uint64_t id, enum ibv_wc_opcode op)
{
	struct ibv_wc wc;

	peer_poll_ok(a.scq, &wc);
	want_eq(wc.wr_id, id);
	want_eq(wc.opcode, op);
}

static void want_nothing(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	want_eq(ibv_poll_cq(cq, 1, &wc), 0);
}

/* The event comes, and the queue pair is drained in SQD. */
static void want_stopped(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pollfd event = { .fd = dev.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	want_eq(poll(&event, 1, 10000), 1);
	want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
	want_eq(ev.event_type, IBV_EVENT_SQ_DRAINED);
	want(ev.element.qp == a.qp);
	ibv_ack_async_event(&ev);
	want_eq(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	want_eq(attr.qp_state, IBV_QPS_SQD);
	want_eq(attr.sq_draining, 0);
}

static int cancel(uint64_t id)
{
	return mlx5dv_qp_cancel_posted_send_wrs(mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_to_qp_ex(a.qp)),
						id);
}

static void go_on(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD };

	want_eq(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
}

static enum mlx5dv_mkey_err_type checked(uint64_t *offset)
{
	struct mlx5dv_mkey_err e;

	want_eq(mlx5dv_mkey_check(mkey, &e), 0);
	*offset = e.err.sig.offset;
	return e.err_type;
}

static void nothing_stops_at_good_ones(int how)
{
	struct ibv_wc wc;
	uint64_t offset;

	begin(how);
	for (unsigned int i = 0; i < 20; i++) {
		receive();
		post_data(IBV_WR_RDMA_WRITE, 0);
		post_answer(ANSWER, IBV_SEND_FENCE);
		want_done(ANSWER, IBV_WC_SEND);
		peer_poll_ok(b.rcq, &wc);
		want_eq(pattern_check(mem + TO, BLOCKS * BLOCK, 1, 0), BLOCKS * BLOCK);
		memset(mem + TO, 0, BLOCKS * BLOCK);
	}
	want_eq(checked(&offset), MLX5DV_MKEY_NO_ERR);
}

/* In the WRITE's @block; the answer behind it does not go, and a bad one takes its place. */
static void stops(uint32_t block)
{
	struct ibv_wc wc;
	uint64_t offset;

	mem[FROM + block * SIGNED + BLOCK + 3] ^= 4;
	receive();
	post_data(IBV_WR_RDMA_WRITE, 0);
	post_answer(ANSWER, IBV_SEND_FENCE);
	want_stopped();
	want_nothing(a.scq);
	want_nothing(b.rcq);
	want_eq(pattern_check(mem + TO, BLOCKS * BLOCK, 1, 0), BLOCKS * BLOCK); /* it went */
	want_eq(checked(&offset), MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
	want_eq(offset, block * SIGNED);
	want_eq(cancel(DATA), 0); /* it is done */
	want_eq(cancel(ANSWER), 1);
	want_eq(cancel(ANSWER), 0);
	post_answer(AFTER, 0);
	want_nothing(b.rcq);
	go_on();
	want_done(ANSWER, IBV_WC_SEND);
	want_done(AFTER, IBV_WC_SEND);
	peer_poll_ok(b.rcq, &wc);
	want_nothing(b.rcq);
}

static void stops_before_the_answer(int how)
{
	begin(how);
	for (uint32_t block = 0; block < BLOCKS; block += 4) {
		peer_note("block %u", block);
		configure();
		stops(block);
	}
	configure(); /* and all is well again */
	receive();
	post_data(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
	want_done(DATA, IBV_WC_RDMA_WRITE);
}

/* What a READ brings is wrong: the fenced answer has waited for it, and does not go. */
static void stops_after_a_read(int how)
{
	struct blocks blocks = { CRC32, MLX5DV_BLOCK_SIZE_512, true };
	struct mlx5dv_qp_ex *dv;
	struct mlx5dv_mkey_conf_attr none = { 0 };
	struct blocks_attr attr;
	struct mlx5dv_sig_block_attr sig = { .wire = blocks_domain(&blocks, &attr),
					     .check_mask = 0xff };
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;
	uint64_t offset;

	begin(how);
	dv = mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_to_qp_ex(a.qp));
	ex = ibv_qp_to_qp_ex(a.qp);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	mlx5dv_wr_mkey_configure(dv, mkey, 1, &none);
	mlx5dv_wr_set_mkey_sig_block(dv, &sig);
	want_eq(ibv_wr_complete(ex), 0);
	peer_poll_ok(a.scq, &wc);
	memcpy(mem + TO, mem + FROM, BLOCKS * SIGNED);
	mem[TO + 2 * SIGNED] ^= 1;
	receive();
	post_read_and_answer(BLOCKS * SIGNED);
	post_answer(AFTER, 0);
	want_stopped();
	want_done(DATA, IBV_WC_RDMA_READ);
	want_nothing(a.scq);
	want_nothing(b.rcq);
	want_eq(checked(&offset), MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
	want_eq(offset, 2 * SIGNED);
	want_eq(cancel(ANSWER), 1);
	go_on();
	want_done(ANSWER, IBV_WC_SEND);
	want_done(AFTER, IBV_WC_SEND);
	peer_poll_ok(b.rcq, &wc);
	want_nothing(b.rcq);
}

/* Work requests of every length are taken back, each with its place in the ring. */
static void several_are_taken_back(int how)
{
	struct ibv_wc wc;

	begin(how);
	mem[FROM] ^= 1;
	post_data(IBV_WR_RDMA_WRITE, 0);
	post_answer(ANSWER, IBV_SEND_FENCE);
	post(DATA, IBV_WR_RDMA_READ, (struct ibv_sge){ (uintptr_t)mem, 64, mr->lkey },
	     IBV_SEND_SIGNALED);
	post(ANSWER, IBV_WR_SEND, (struct ibv_sge){ (uintptr_t)mem, 300, mr->lkey },
	     IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	post_answer(AFTER, 0);
	want_stopped();
	want_eq(cancel(77), 0);
	want_eq(cancel(ANSWER), 2);
	want_eq(cancel(DATA), 1);
	receive();
	go_on();
	want_done(ANSWER, IBV_WC_SEND);
	want_done(DATA, IBV_WC_RDMA_READ);
	want_done(ANSWER, IBV_WC_SEND);
	want_done(AFTER, IBV_WC_SEND);
	peer_poll_ok(b.rcq, &wc);
	want_nothing(b.rcq);
}

/* In ERR they are flushed as any other. */
static void taken_back_and_flushed(int how)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	begin(how);
	mem[FROM] ^= 1;
	post_data(IBV_WR_RDMA_WRITE, 0);
	post_answer(ANSWER, IBV_SEND_FENCE);
	want_stopped();
	want_eq(cancel(ANSWER), 1);
	want_eq(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	want(peer_poll(a.scq, &wc, 10000));
	want_eq(wc.wr_id, ANSWER);
	want_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	want_eq(cancel(ANSWER), -EINVAL);
}

/* A queue pair that was not made for it */
static void others_go_on(int how)
{
	struct ibv_wc wc;
	uint64_t offset;

	begin_with(how, 0);
	mem[FROM] ^= 1;
	receive();
	post_data(IBV_WR_RDMA_WRITE, 0);
	post_answer(ANSWER, IBV_SEND_FENCE);
	want_done(ANSWER, IBV_WC_SEND);
	peer_poll_ok(b.rcq, &wc);
	want_eq(checked(&offset), MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
	want_eq(cancel(ANSWER), -EINVAL);
}

static void misuse(int how)
{
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD };

	begin(how);
	want_eq(cancel(ANSWER), -EINVAL); /* in RTS */
	said_want(SAID_NEAR,
		  "mlx5dv_qp_cancel_posted_send_wrs: QP 0x%x is not drained in SQD, or was created "
		  "without MLX5DV_QP_CREATE_SIG_PIPELINING; wait for IBV_EVENT_SQ_DRAINED",
		  a.qp->qp_num);
	want_eq(mlx5dv_qp_cancel_posted_send_wrs(NULL, 1), -EINVAL);
	ibv_wr_start(ibv_qp_to_qp_ex(a.qp));
	want_eq(cancel(ANSWER), -EINVAL);
	ibv_wr_abort(ibv_qp_to_qp_ex(a.qp));
	want_eq(ibv_modify_qp(a.qp, &sqd, IBV_QP_STATE), 0);
	post_answer(ANSWER, 0);
	want_eq(cancel(ANSWER), 1); /* whatever has stopped it */
	go_on();
	want_done(ANSWER, IBV_WC_SEND);
	want_null(make_qp(&a, IBV_QPT_UC, MLX5DV_QP_CREATE_SIG_PIPELINING), EOPNOTSUPP);
	want_null(make_qp(&a, IBV_QPT_UD, MLX5DV_QP_CREATE_SIG_PIPELINING), EOPNOTSUPP);
}

#define BOTH(f) CASE_ARG(f, WHOLE), CASE_ARG(f, PACKETS)

static const struct test_case cases[] = {
	BOTH(nothing_stops_at_good_ones),
	BOTH(stops_before_the_answer),
	BOTH(stops_after_a_read),
	BOTH(several_are_taken_back),
	CASE_ARG(taken_back_and_flushed, WHOLE),
	CASE_ARG(others_go_on, WHOLE),
	CASE_ARG(misuse, WHOLE),
};

int main(void)
{
	return CASES_RUN(cases);
}
