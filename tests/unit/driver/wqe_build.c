// SPDX-License-Identifier: MIT
/* What the builder writes is what the device's parser reads, at every place of the ring; and what
 * it refuses. The queue is memory alone: nothing is posted. */
#include "queue.h"

/* The bytes of what was built last, as the device finds them. */
static uint32_t read_inline(const struct queue *q, uint32_t pi, uint8_t *to)
{
	struct sq_ring ring = { q->qp->sq.buf, BLOCKS_IN_RING, &(uint32_t){ 0 } };
	uint32_t n = 0;
	struct wqe w;

	check_eq(wqe_parse(&ring, (uint16_t)pi, BLOCKS_IN_RING, WQE_CONNECTED, &w), 0);
	check_eq(w.inlined, (1U << w.nsge) - 1);
	for (unsigned int i = 0; i < w.nsge; n += w.sge[i++].len)
		memcpy(to + n, (const void *)(uintptr_t)w.sge[i].addr, w.sge[i].len);
	check_eq(n, w.len);
	return n;
}

TEST(inline_data_reads_back_at_every_place_of_the_ring)
{
	struct wqe_head h = { .opcode = MLX5_OPCODE_SEND };
	uint8_t data[INLINE_MAX], back[INLINE_MAX];
	struct queue q;

	for (unsigned int i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + 1);
	open_queue(&q, IBV_QPT_RC);
	for (uint32_t len = 1; len <= INLINE_MAX; len++) {
		for (uint32_t pi = 0; pi < BLOCKS_IN_RING; pi++) {
			uint32_t cut = len / 3;
			struct ibv_sge sg[] = { { (uintptr_t)data, cut, 0 },
						{ (uintptr_t)data + cut, len - cut, 0 } };

			start_at(&q, pi);
			wqe_begin(q.qp, &h);
			wqe_inline_sges(q.qp, sg, 2);
			wqe_finish(q.qp);
			check_eq(q.qp->build.err, 0);
			check_eq(read_inline(&q, pi, back), len);
			check_mem(back, data, len);
		}
	}
	close_queue(&q);
}

TEST(max_wr_sends_can_be_built_and_not_one_more)
{
	struct wqe_head h = { .opcode = MLX5_OPCODE_SEND };
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	for (uint32_t i = 0; i <= q.qp->sq.max_wr; i++) {
		wqe_begin(q.qp, &h);
		wqe_finish(q.qp);
		check_eq(q.qp->build.err, i < q.qp->sq.max_wr ? 0 : ENOMEM);
	}
	check_eq(q.qp->sq.head, q.qp->sq.max_wr);
	q.qp->build.err = 0;
	q.qp->sq.tail = 1; /* one was polled */
	wqe_begin(q.qp, &h);
	check_eq(q.qp->build.err, 0);
	close_queue(&q);
}

TEST(an_aborted_batch_leaves_no_trace)
{
	struct wqe_head h = { .opcode = MLX5_OPCODE_SEND };
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	check_eq(wqe_batch_begin(q.qp, "test"), 0);
	wqe_begin(q.qp, &h);
	wqe_finish(q.qp);
	check_eq(q.qp->sq.head, 1);
	wqe_batch_abort(q.qp);
	check_eq(q.qp->sq.head, 0);
	check_eq(q.qp->sq.pi, 0);
	check_eq(wqe_batch_begin(q.qp, "test"), 0); /* the lock is free */
	wqe_batch_abort(q.qp);
	close_queue(&q);
}

/* As in a child: the epoch is another process's. */
TEST(an_inherited_queue_takes_nothing)
{
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	q.qp->epoch = fork_epoch() + 1;
	check_eq(wqe_batch_begin(q.qp, "ibv_post_send"), EIO);
	check_reason("ibv_post_send: QP 0x123456 was made before fork()");
	q.qp->epoch = fork_epoch();
	check_eq(wqe_batch_begin(q.qp, "ibv_post_send"), 0); /* nor was its lock taken */
	wqe_batch_abort(q.qp);
	close_queue(&q);
}

TEST(states_that_cannot_send_are_refused)
{
	static const enum ibv_qp_state cannot[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR };
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	for (unsigned int i = 0; i < sizeof(cannot) / sizeof(cannot[0]); i++) {
		q.qp->ib.qp_base.state = q.dev.qp.state = cannot[i];
		check_eq(wqe_batch_begin(q.qp, "test"), EINVAL);
	}
	q.qp->ib.qp_base.state = IBV_QPS_ERR; /* there sends are flushed */
	check_eq(wqe_batch_begin(q.qp, "test"), 0);
	wqe_batch_abort(q.qp);
	close_queue(&q);
}

/* ibv_query_qp beside ibv_modify_qp has set the public state back: the device's is the truth. */
TEST(a_stale_public_state_refuses_nothing)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	q.qp->ib.qp_base.state = IBV_QPS_RTR;
	q.dev.qp.state = IBV_QPS_RTS;
	check_eq(wqe_batch_begin(q.qp, "test"), 0);
	wqe_batch_abort(q.qp);
	q.qp->ib.qp_base.state = IBV_QPS_RESET;
	q.dev.qp.state = IBV_QPS_INIT;
	check_eq(wqe_batch_begin(q.qp, "test"), EINVAL);
	check_reason("is in INIT");
	check_eq(dqp_post_recv(&q.qp->ib.qp_base, &wr, &bad), 0);
	q.dev.qp.state = IBV_QPS_RESET;
	check_eq(dqp_post_recv(&q.qp->ib.qp_base, &wr, &bad), EINVAL);
	close_queue(&q);
}

RUN_TESTS(unit_test(inline_data_reads_back_at_every_place_of_the_ring),
	  unit_test(max_wr_sends_can_be_built_and_not_one_more),
	  unit_test(an_aborted_batch_leaves_no_trace), unit_test(an_inherited_queue_takes_nothing),
	  unit_test(states_that_cannot_send_are_refused),
	  unit_test(a_stale_public_state_refuses_nothing))
