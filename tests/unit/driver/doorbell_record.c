// SPDX-License-Identifier: MIT
/* Doorbell records: 16-bit counts of what was posted, stored when the WQEs are complete; and rings
 * of the doorbell for each call. */
#include "queue.h"

TEST(the_send_record_counts_blocks)
{
	struct ibv_sge sg[4] = { { 1, 1, 1 }, { 2, 1, 1 }, { 3, 1, 1 }, { 4, 1, 1 } };
	struct ibv_send_wr wr[2] = { { .opcode = IBV_WR_SEND, .next = &wr[1] },
				     { .opcode = IBV_WR_SEND, .sg_list = sg, .num_sge = 4 } },
			   *bad;
	struct queue q;
	uint32_t blocks = 0;

	open_queue(&q, IBV_QPT_RC);
	for (uint32_t i = 1; i <= 30000; i++) {
		check_eq(dqp_post_send(&q.qp->ib.qp_base, wr, &bad), 0);
		blocks += 1 + 2; /* control alone; control and four segments */
		check_eq(sq_record(&q), blocks & 0xffff);
		check_eq(rung.sq, i);
		q.qp->sq.tail = q.qp->sq.head;
	}
	close_queue(&q);
}

TEST(the_receive_record_counts_wqes)
{
	struct ibv_recv_wr wr[2] = { { .next = &wr[1] }, { 0 } }, *bad;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	for (uint32_t i = 1; i <= 40000; i++) {
		check_eq(dqp_post_recv(&q.qp->ib.qp_base, wr, &bad), 0);
		check_eq(be32toh(q.qp->dbrec[MLX5_RCV_DBR]), 2 * i & 0xffff);
		check_eq(rung.rq, i);
		q.qp->rq.tail = q.qp->rq.head;
	}
	check_eq(sq_record(&q), 0);
	close_queue(&q);
}

/* What could be posted before the one that is refused counts, and is rung for. */
TEST(a_refused_receive_does_not_count)
{
	struct ibv_sge sg[3] = { { 1, 1, 1 }, { 2, 1, 1 }, { 3, 1, 1 } };
	struct ibv_recv_wr wr[3] = { { .next = &wr[1] },
				     { .next = &wr[2], .sg_list = sg, .num_sge = 3 },
				     { 0 } },
			   *bad;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	check_eq(dqp_post_recv(&q.qp->ib.qp_base, wr, &bad), EINVAL);
	check(bad == &wr[1]);
	check_reason("num_sge 3, QP 0x123456 was created with max_recv_sge 2");
	check_eq(be32toh(q.qp->dbrec[MLX5_RCV_DBR]), 1);
	check_eq(rung.rq, 1);
	close_queue(&q);
}

TEST(receives_in_a_state_or_queue_without_them_are_refused)
{
	struct ibv_recv_wr wr = { 0 }, *bad = NULL;
	struct ibv_srq srq;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	q.qp->ib.qp_base.state = IBV_QPS_RESET;
	check_eq(dqp_post_recv(&q.qp->ib.qp_base, &wr, &bad), EINVAL);
	check_reason("QP 0x123456 is in RESET; receiving needs INIT");
	check(bad == &wr);
	q.qp->ib.qp_base.state = IBV_QPS_INIT;
	check_eq(dqp_post_recv(&q.qp->ib.qp_base, &wr, &bad), 0);
	q.qp->ib.qp_base.srq = &srq;
	check_eq(dqp_post_recv(&q.qp->ib.qp_base, &wr, &bad), EINVAL);
	check_reason("post to its SRQ");
	q.qp->epoch++;
	check_eq(dqp_post_recv(&q.qp->ib.qp_base, &wr, &bad), EIO);
	check_eq(rung.rq, 1);
	close_queue(&q);
}

/* The list of a receive ends where its SGEs do, unless it fills the WQE; empty ones are left
 * out. */
TEST(receive_wqes_hold_their_sges)
{
	struct ibv_sge sg[2] = { { 0x10, 0, 1 }, { 0x20, 5, 6 } };
	struct ibv_recv_wr wr = { .sg_list = sg, .num_sge = 2 }, *bad;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	check_eq(dqp_post_recv(&q.qp->ib.qp_base, &wr, &bad), 0);
	check_eq(get_be32(q.receives[0]), 5);
	check_eq(get_be32(q.receives[0] + 4), 6);
	check_eq(get_be64(q.receives[0] + 8), 0x20);
	check_eq(get_be32(q.receives[0] + 16), 0);
	check_eq(get_be32(q.receives[0] + 20), MLX5_INVALID_LKEY);
	sg[0].length = 4;
	check_eq(dqp_post_recv(&q.qp->ib.qp_base, &wr, &bad), 0);
	check_eq(get_be32(q.receives[1]), 4);
	check_eq(get_be32(q.receives[1] + 16), 5);
	check_eq(get_be32(q.receives[2] + 4), 0); /* the next WQE is untouched */
	close_queue(&q);
}

TEST(an_aborted_batch_neither_counts_nor_rings)
{
	struct wqe_head h = { .opcode = MLX5_OPCODE_SEND };
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	check_eq(wqe_batch_begin(q.qp, "test"), 0);
	wqe_begin(q.qp, &h);
	wqe_finish(q.qp);
	wqe_batch_abort(q.qp);
	check_eq(sq_record(&q), 0);
	check_eq(rung.sq, 0);
	close_queue(&q);
}

RUN_TESTS(unit_test(the_send_record_counts_blocks), unit_test(the_receive_record_counts_wqes),
	  unit_test(a_refused_receive_does_not_count),
	  unit_test(receives_in_a_state_or_queue_without_them_are_refused),
	  unit_test(receive_wqes_hold_their_sges),
	  unit_test(an_aborted_batch_neither_counts_nor_rings))
