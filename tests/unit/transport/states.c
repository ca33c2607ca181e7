// SPDX-License-Identifier: MIT
/* State moves: ERR flushes, SQD drains, RESET forgets; overrun; shared receive queues. */
#include "pair.h"
#include "transport/apm.h"
#include "transport/flush.h"

TEST(err_completes_everything_in_order)
{
	struct rig_attr attr = rig_rc;

	attr.sig_all = false;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 8);
	uint16_t block[8];

	w.signaled = false;
	for (int i = 0; i < 3; i++)
		pair_receive(p->a, 0x4000, 8);
	for (int i = 0; i < 8; i++) /* four are sent, four wait for their answers */
		block[i] = rig_post(p->a, &w);
	rig_move(p->a, IBV_QPS_ERR);
	for (int i = 0; i < 8; i++)
		check_eq(pair_bad(p->a, false, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, VENDOR_SEND_FLUSH)
				 .wqe_counter,
			 block[i]);
	for (int i = 0; i < 3; i++)
		check_eq(pair_bad(p->a, true, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, VENDOR_RECV_FLUSH)
				 .wqe_counter,
			 i);
	rig_run(&p->rig); /* answers that come late complete nothing */
	pair_none(p->a, false);
	pair_close(p);
}

/* One host: what was executed is acknowledged before the QP forgets that it owes it. */
static void owes_an_ack(enum ibv_qp_state to)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	rig_post(p->a, &w);
	while (net_next(&p->rig.net) != UINT64_MAX)
		net_step(&p->rig.net);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 0);
	rig_move(p->b, to);
	rig_run(&p->rig);
	check_eq(pair_count(p, p->a, OP_ACKNOWLEDGE), 1);
	check_eq(p->log[p->n - 1].dqpn, p->a->q.qp.qpn);
	pair_good(p->a, false);
	pair_close(p);
}

/* The record is the program's, and may say anything: no more receives than the ring has. */
TEST(err_completes_the_receives_of_one_ring)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);

	p->a->dbrec[0] = htobe32(60000);
	rig_move(p->a, IBV_QPS_ERR);
	for (int i = 0; i < RIG_RQ; i++)
		pair_bad(p->a, true, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, VENDOR_RECV_FLUSH);
	pair_none(p->a, true);
	pair_close(p);
}

TEST(err_sends_the_ack_that_is_due)
{
	owes_an_ack(IBV_QPS_ERR);
}

TEST(reset_sends_the_ack_that_is_due_to_its_peer)
{
	owes_an_ack(IBV_QPS_RESET);
}

TEST(posts_in_err_are_flushed)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_send(p->a, 0, 8);

	rig_move(p->a, IBV_QPS_ERR);
	rig_post(p->a, &w);
	pair_receive(p->a, 0x4000, 8);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, VENDOR_SEND_FLUSH);
	pair_bad(p->a, true, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, VENDOR_RECV_FLUSH);
	check_eq(p->n, 0);
	pair_close(p);
}

TEST(flushes_name_the_first_cause)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	uint64_t id;

	w.rkey ^= 1;
	rig_post(p->a, &w);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	id = pair_bad(p->a, false, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, VENDOR_REM_ACCESS).reason;
	check_ne(id, 0);
	check_eq(pair_bad(p->a, false, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, VENDOR_SEND_FLUSH).reason,
		 id);
	pair_close(p);
}

TEST(sqd_finishes_what_was_started_and_says_so)
{
	struct rig_attr attr = rig_rc;

	attr.rd_atomic = 1;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 600);

	p->a->q.qp.attr.en_sqd_async_notify = 1;
	rig_post(p->a, &w);
	rig_move(p->a, IBV_QPS_SQD);
	rig_post(p->a, &w);
	pair_no_event(p->a);
	check_eq(p->a->q.qp.attr.sq_draining, 1);
	rig_run(&p->rig);
	pair_event(p->a, IBV_EVENT_SQ_DRAINED);
	check_eq(p->a->q.qp.attr.sq_draining, 0);
	pair_good(p->a, false);
	pair_none(p->a, false);
	rig_move(p->a, IBV_QPS_RTS);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_close(p);
}

/* With a work request outstanding. */
TEST(sqd_that_is_left_early_drains_no_more)
{
	static const struct {
		enum ibv_qp_type type;
		enum ibv_qp_state to;
	} ways[] = { { IBV_QPT_RC, IBV_QPS_RTS },
		     { IBV_QPT_RC, IBV_QPS_ERR },
		     { IBV_QPT_RC, IBV_QPS_RESET },
		     { IBV_QPT_UC, IBV_QPS_SQE } };

	for (unsigned int i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct rig_attr attr = rig_rc;
		struct net_config cfg = pair_host;
		struct pair *p;
		struct rig_wr w;

		attr.type = ways[i].type;
		cfg.again = 1;
		p = pair_open(&cfg, &attr);
		w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 600);
		p->a->q.qp.attr.en_sqd_async_notify = 1;
		rig_post(p->a, &w);
		rig_move(p->a, IBV_QPS_SQD);
		check_eq(p->a->q.qp.attr.sq_draining, 1);
		if (ways[i].to == IBV_QPS_SQE)
			flush_to_sqe(&p->a->q, 0, 0);
		else
			rig_move(p->a, ways[i].to);
		check_eq(p->a->q.qp.attr.sq_draining, 0);
		pair_no_event(p->a);
		pair_close(p);
	}
}

/* A process of the host that has no room for the frame, and never will. */
static int cast_in_vain(struct tqp *q, const struct seg *s)
{
	(void)s;
	if (q->req.way.late)
		return 0;
	q->req.way.next = 1;
	return EAGAIN;
}

TEST(sqd_is_drained_when_the_last_frame_is_given_up)
{
	static const struct tqp_env env = { .cast = cast_in_vain };
	struct rig_attr attr = rig_rc;

	attr.type = IBV_QPT_RAW_PACKET;
	struct pair *p = pair_open(&pair_host, &attr);
	struct rig_wr w = pair_send(p->a, 0, 64);

	p->a->q.env = &env;
	p->a->q.qp.attr.en_sqd_async_notify = 1;
	rig_post(p->a, &w);
	rig_move(p->a, IBV_QPS_SQD);
	pair_no_event(p->a);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_event(p->a, IBV_EVENT_SQ_DRAINED);
	pair_close(p);
}

TEST(sqd_with_nothing_started_is_drained_at_once)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);

	p->a->q.qp.attr.en_sqd_async_notify = 1;
	rig_move(p->a, IBV_QPS_SQD);
	pair_event(p->a, IBV_EVENT_SQ_DRAINED);
	pair_close(p);
}

TEST(a_qp_works_again_after_reset)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 8);

	p->rig.net.cut = true;
	rig_post(p->a, &w);
	p->rig.net.cut = false;
	rig_move(p->a, IBV_QPS_RESET);
	rig_move(p->b, IBV_QPS_RESET);
	check_eq(p->a->q.deadline, TQP_NEVER);
	rig_connect(p->a, &rig_rc, p->b->q.qp.qpn);
	rig_connect(p->b, &rig_rc, p->a->q.qp.qpn);
	pair_none(p->a, false);
	check_eq(rig_post(p->a, &w), 0);
	rig_run(&p->rig);
	check_eq(pair_good(p->a, false).wqe_counter, 0);
	pair_none(p->a, false);
	pair_close(p);
}

TEST(reset_leaves_the_waiting_list)
{
	struct net_config cfg = pair_host;

	cfg.again = 1;
	struct pair *p = pair_open(&cfg, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	rig_post(p->a, &w);
	check_ne(net_next(&p->rig.net), UINT64_MAX);
	rig_move(p->a, IBV_QPS_RESET);
	check_eq(net_next(&p->rig.net), UINT64_MAX);
	pair_close(p);
}

TEST(a_full_cq_stops_its_qp)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	struct ibv_async_event e;

	p->a->cqs[0]->cnt = 2;
	for (int i = 0; i < 3; i++)
		rig_post(p->a, &w);
	rig_run(&p->rig);
	check_eq(p->a->q.qp.state, IBV_QPS_ERR);
	check_eq(async_pop(p->rig.ctx, &e), 0);
	check_eq(e.event_type, IBV_EVENT_CQ_ERR);
	pair_event(p->a, IBV_EVENT_QP_FATAL);
	pair_close(p);
}

TEST(err_on_a_shared_receive_queue_says_the_last_wqe_is_reached)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	uint8_t ring[64];
	uint32_t rec;
	struct srq *srq = pair_srq_open(p->b, ring, &rec, 2);

	rig_move(p->b, IBV_QPS_ERR);
	pair_event(p->b, IBV_EVENT_QP_LAST_WQE_REACHED);
	pair_none(p->b, true); /* the receives stay the SRQ's */
	check_eq(srq_posted(srq), 2);
	pair_srq_close(p->b, srq);
	pair_close(p);
}

TEST(a_shared_receive_that_comes_late_ends_the_rnr_wait)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_send(p->a, 0, 8);
	uint8_t ring[64];
	uint32_t rec;
	struct srq *srq = pair_srq_open(p->b, ring, &rec, 0);

	p->b->q.qp.attr.min_rnr_timer = 0;
	rig_post(p->a, &w);
	rig_run_until(&p->rig, 1000);
	check(p->b->q.rnr_waiting);
	rec = htobe32(1);
	tqp_rq_doorbell(&p->b->q, p->rig.net.now);
	rig_run_until(&p->rig, 2000);
	check_eq(pair_good(p->b, true).byte_cnt, 8);
	pair_good(p->a, false);
	pair_srq_close(p->b, srq);
	pair_close(p);
}

/* It has waited for room on the path that it leaves. */
TEST(a_full_path_is_left_for_the_alternate_one)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	struct tqp *q = &p->a->q;
	struct net_end other;

	net_end_init(&other, &p->rig.net, q->qp.qpn);
	q->alternate = &other.d;
	p->a->end.refuse = EAGAIN;
	rig_post(p->a, &w);
	check_eq(p->n, 0);
	q->qp.attr.path_mig_state = IBV_MIG_MIGRATED;
	apm_modified(q, IBV_MIG_ARMED, p->rig.net.now);
	check(rig_go_on(&p->rig));
	check_eq(pair_count(p, p->b, OP_WRITE_ONLY), 1);
	pair_close(p);
}

RUN_TESTS(unit_test(err_completes_everything_in_order),
	  unit_test(err_completes_the_receives_of_one_ring),
	  unit_test(err_sends_the_ack_that_is_due),
	  unit_test(reset_sends_the_ack_that_is_due_to_its_peer),
	  unit_test(posts_in_err_are_flushed), unit_test(flushes_name_the_first_cause),
	  unit_test(sqd_finishes_what_was_started_and_says_so),
	  unit_test(sqd_that_is_left_early_drains_no_more),
	  unit_test(sqd_is_drained_when_the_last_frame_is_given_up),
	  unit_test(sqd_with_nothing_started_is_drained_at_once),
	  unit_test(a_qp_works_again_after_reset), unit_test(reset_leaves_the_waiting_list),
	  unit_test(a_full_path_is_left_for_the_alternate_one), unit_test(a_full_cq_stops_its_qp),
	  unit_test(err_on_a_shared_receive_queue_says_the_last_wqe_is_reached),
	  unit_test(a_shared_receive_that_comes_late_ends_the_rnr_wait))
