// SPDX-License-Identifier: MIT
/* The ibv_wr_* functions called in the wrong order: the batch fails as a whole, says why, and
 * leaves neither a WQE nor a lock behind. */
#include "queue.h"

static struct ibv_qp_ex *open_builder(struct queue *q, enum ibv_qp_type type)
{
	open_queue(q, type);
	check_eq(wr_builder_attach(q->qp, IBV_QP_EX_WITH_SEND), 0);
	return &q->qp->ib;
}

/* The batch fails with @word in its reason, and the next one works. */
static void check_fails(struct queue *q, const char *word)
{
	struct ibv_qp_ex *ex = &q->qp->ib;

	check_eq(ex->wr_complete(ex), EINVAL);
	check_reason(word);
	check_eq(q->qp->sq.head, 0);
	check_eq(q->qp->sq.pi, 0);
	check_eq(sq_record(q), 0);
	check_eq(rung.sq, 0);
	ex->wr_start(ex);
	ex->wr_send(ex);
	if (q->qp->service->wqe == WQE_XRC)
		ex->wr_set_xrc_srqn(ex, 1);
	if (q->qp->service->wqe != WQE_DATAGRAM)
		check_eq(ex->wr_complete(ex), 0);
	else
		ex->wr_abort(ex);
	close_queue(q);
}

TEST(a_batch_is_posted_by_one_ring)
{
	struct queue q;
	struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_RC);

	ex->wr_start(ex);
	for (uint64_t i = 0; i < 3; i++) {
		ex->wr_id = 10 + i;
		ex->wr_flags = i ? 0 : IBV_SEND_SIGNALED;
		ex->wr_rdma_write(ex, 1, 2);
		ex->wr_set_sge(ex, 3, 4, 5);
	}
	check_eq(sq_record(&q), 0); /* not before the end */
	check_eq(ex->wr_complete(ex), 0);
	check_eq(sq_record(&q), 3);
	check_eq(rung.sq, 1);
	for (unsigned int i = 0; i < 3; i++) {
		check_eq(q.qp->sq.slot[i].wr_id, 10 + i);
		check_eq(get_be32(q.qp->sq.buf + i * WQE_BB + 8), i ? 0 : MLX5_WQE_CTRL_CQ_UPDATE);
	}
	close_queue(&q);
}

TEST(calls_outside_of_a_batch_touch_nothing)
{
	struct queue q;
	struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_RC);

	ex->wr_send(ex);
	check_reason("ibv_wr_*: this thread is not building work for QP 0x123456");
	ex->wr_set_sge(ex, 1, 2, 3);
	check_reason("ibv_wr_set_sge: this thread is not building work");
	ex->wr_set_inline_data(ex, ex, 1);
	ex->wr_abort(ex);
	check_eq(q.qp->sq.buf[0], 0xee);
	check_fails(&q, "ibv_wr_complete: this thread is not building work");
}

/* Nor does the number of an SRQ, whose place another WQE may have by now. */
TEST(an_srq_s_number_outside_of_a_batch_touches_nothing)
{
	struct queue q;
	struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_XRC_SEND);
	uint8_t before[2 * WQE_BB], after[2 * WQE_BB];

	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_set_xrc_srqn(ex, 5);
	check_eq(ex->wr_complete(ex), 0);
	read_ring(&q, 0, before, sizeof(before));
	ex->wr_set_xrc_srqn(ex, 6);
	check_reason("ibv_wr_set_xrc_srqn: this thread is not building work");
	read_ring(&q, 0, after, sizeof(after));
	check_mem(before, after, sizeof(before));
	close_queue(&q);
	ex = open_builder(&q, IBV_QPT_XRC_SEND);
	ex->wr_start(ex);
	ex->wr_set_xrc_srqn(ex, 5);
	check_fails(&q, "ibv_wr_set_xrc_srqn: no operation has begun");
}

TEST(a_setter_follows_its_operation)
{
	struct queue q;
	struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_RC);

	ex->wr_start(ex);
	ex->wr_set_sge(ex, 1, 2, 3);
	check_fails(&q, "ibv_wr_set_sge: no operation has begun");
	ex = open_builder(&q, IBV_QPT_RC);
	ex->wr_start(ex);
	ex->wr_local_inv(ex, 5);
	ex->wr_set_sge(ex, 1, 2, 3);
	check_fails(&q, "ibv_wr_set_sge: no operation has begun");
}

TEST(each_setter_comes_once)
{
	static struct ibv_sge sg[1];
	struct queue q;
	struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_RC);

	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_set_sge(ex, 1, 2, 3);
	ex->wr_set_sge_list(ex, 1, sg);
	check_fails(&q, "ibv_wr_set_sge_list: the operation on QP 0x123456 does not take it, or "
			"has its data already");
	ex = open_builder(&q, IBV_QPT_RC);
	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_set_sge(ex, 1, 2, 3);
	ex->wr_set_inline_data(ex, sg, 1);
	check_fails(&q, "ibv_wr_set_inline_data: the operation");
}

TEST(inline_data_only_for_what_sends_data)
{
	for (int i = 0; i < 4; i++) {
		struct queue q;
		struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_RC);

		ex->wr_start(ex);
		if (i == 0)
			ex->wr_rdma_read(ex, 1, 2);
		else if (i == 1)
			ex->wr_atomic_cmp_swp(ex, 1, 2, 3, 4);
		else if (i == 2)
			ex->wr_atomic_fetch_add(ex, 1, 2, 3);
		else
			ex->wr_atomic_write(ex, 1, 2, &q); /* has its 8 bytes */
		ex->wr_set_inline_data(ex, &q, 8);
		check_fails(&q, "ibv_wr_set_inline_data: the operation");
	}
}

/* Neither the next operation nor the end of the batch forgets it. */
TEST(a_datagram_without_an_address_fails)
{
	for (int more = 0; more < 2; more++) {
		struct queue q;
		struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_UD);

		ex->wr_start(ex);
		ex->wr_send(ex);
		if (more)
			ex->wr_send(ex);
		check_fails(&q, "a UD send on QP 0x123456 has no address; call ibv_wr_set_ud_addr");
	}
}

TEST(an_xrc_send_without_an_srq_fails)
{
	struct queue q;
	struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_XRC_SEND);

	ex->wr_start(ex);
	ex->wr_send(ex);
	check_fails(&q, "an XRC send on QP 0x123456 has no address; call ibv_wr_set_xrc_srqn");
}

TEST(a_batch_does_not_begin_within_one)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct queue q;
	struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_RC);

	ex->wr_start(ex);
	ex->wr_send(ex);
	check_eq(dqp_post_send(&q.qp->ib.qp_base, &wr, &bad), EINVAL);
	check_reason("ibv_post_send: this thread is between ibv_wr_start and ibv_wr_complete");
	ex->wr_start(ex);
	check_fails(&q, "ibv_wr_start: this thread is between ibv_wr_start and ibv_wr_complete");
}

TEST(an_aborted_batch_may_have_had_errors)
{
	struct queue q;
	struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_RC);

	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_set_sge(ex, 1, 2, 3);
	ex->wr_set_sge(ex, 1, 2, 3);
	ex->wr_abort(ex);
	check_eq(q.qp->sq.head, 0);
	ex->wr_start(ex);
	check_eq(ex->wr_complete(ex), 0);
	close_queue(&q);
}

/* The first error is the batch's; later calls neither change it nor write. */
TEST(the_first_error_of_a_batch_stays)
{
	struct queue q;
	struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_RC);

	ex->wr_start(ex);
	for (int i = 0; i < 4; i++)
		ex->wr_send(ex);
	ex->wr_send(ex); /* max_wr is 4 */
	check_reason("all 4 send work requests of QP 0x123456 are outstanding");
	ex->wr_set_sge(ex, 1, 2, 3);
	check_eq(ex->wr_complete(ex), ENOMEM);
	check_eq(q.qp->sq.pi, 0);
	close_queue(&q);
}

TEST(operations_that_a_service_lacks_fail_the_batch)
{
	struct queue q;
	struct ibv_qp_ex *ex = open_builder(&q, IBV_QPT_UD);

	ex->wr_start(ex);
	ex->wr_rdma_read(ex, 1, 2);
	check_fails(&q, "ibv_wr_rdma_read: UD QPs, as QP 0x123456 is, do not do it");
	ex = open_builder(&q, IBV_QPT_RC);
	ex->wr_start(ex);
	ex->wr_send_tso(ex, NULL, 0, 0);
	check_fails(&q, "ibv_wr_send_tso: RC QPs, as QP 0x123456 is, do not do it");
}

/* From the first entry to the last, also of what a service lacks: a program may call it. */
TEST(no_entry_is_empty_on_any_service)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						  IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND };

	for (unsigned int i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct queue q;
		const char *ex = (const char *)open_builder(&q, types[i]);
		size_t at = offsetof(struct ibv_qp_ex, wr_atomic_cmp_swp);

		for (; at < sizeof(struct ibv_qp_ex); at += sizeof(void *)) {
			void *entry;

			memcpy(&entry, ex + at, sizeof(entry));
			if (!entry)
				fail_msg("type %d, entry at %zu", types[i], at);
		}
		close_queue(&q);
	}
}

TEST(flags_that_a_service_lacks_are_refused)
{
	struct queue q;

	open_queue(&q, IBV_QPT_UC);
	check_eq(wr_builder_attach(q.qp, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ),
		 EOPNOTSUPP);
	check_reason("of which 0x10 do not work on UC QPs");
	close_queue(&q);
}

RUN_TESTS(unit_test(a_batch_is_posted_by_one_ring),
	  unit_test(calls_outside_of_a_batch_touch_nothing),
	  unit_test(an_srq_s_number_outside_of_a_batch_touches_nothing),
	  unit_test(a_setter_follows_its_operation), unit_test(each_setter_comes_once),
	  unit_test(inline_data_only_for_what_sends_data),
	  unit_test(a_datagram_without_an_address_fails),
	  unit_test(an_xrc_send_without_an_srq_fails), unit_test(a_batch_does_not_begin_within_one),
	  unit_test(an_aborted_batch_may_have_had_errors),
	  unit_test(the_first_error_of_a_batch_stays),
	  unit_test(operations_that_a_service_lacks_fail_the_batch),
	  unit_test(no_entry_is_empty_on_any_service),
	  unit_test(flags_that_a_service_lacks_are_refused))
