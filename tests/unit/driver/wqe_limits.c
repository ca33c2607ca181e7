// SPDX-License-Identifier: MIT
/* What a send WQE may hold: each limit can be reached, one more is refused with the numbers
 * compared, and the work requests before the refused one are posted. */
#include "queue.h"

enum { SGES = 6 };

static int post(struct queue *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	*bad = NULL;
	return dqp_post_send(&q->qp->ib.qp_base, wr, bad);
}

TEST(max_send_sge_is_the_most)
{
	struct ibv_sge sg[SGES] = { { 1, 1, 1 }, { 2, 1, 1 }, { 3, 1, 1 }, { 4, 1, 1 } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = sg }, *bad;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	for (wr.num_sge = 0; wr.num_sge <= 4; wr.num_sge++) {
		start_at(&q, 0);
		check_eq(post(&q, &wr, &bad), 0);
	}
	for (wr.num_sge = 5; wr.num_sge <= SGES; wr.num_sge++) {
		start_at(&q, 0);
		check_eq(post(&q, &wr, &bad), EINVAL);
		check(bad == &wr);
	}
	check_reason("num_sge 6, QP 0x123456 was created with max_send_sge 4");
	wr.num_sge = -1;
	check_eq(post(&q, &wr, &bad), EINVAL);
	check_reason("num_sge -1 on QP 0x123456 is negative");
	check_eq(q.qp->sq.head, 0);
	close_queue(&q);
}

TEST(max_inline_data_is_the_most)
{
	static uint8_t data[2 * INLINE_MAX];
	struct ibv_sge sg[2] = { { (uintptr_t)data, INLINE_MAX - 1, 0 },
				 { (uintptr_t)data, 1, 0 } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .sg_list = sg,
				  .num_sge = 2,
				  .send_flags = IBV_SEND_INLINE },
			   *bad;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	check_eq(post(&q, &wr, &bad), 0);
	sg[1].length = 2;
	check_eq(post(&q, &wr, &bad), EINVAL);
	check_reason("301 bytes inline, QP 0x123456 was created with max_inline_data 300");
	sg[0].length = sg[1].length = UINT32_MAX; /* the sum does not wrap */
	check_eq(post(&q, &wr, &bad), EINVAL);
	check_reason("8589934590 bytes inline");
	check_eq(q.qp->sq.head, 1);
	close_queue(&q);
}

static int post_tso(struct queue *q, bool ex, void *data, uint32_t n)
{
	static uint8_t headers[66];
	struct ibv_sge sg = { (uintptr_t)data, n, 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_TSO,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_INLINE,
				  .tso = { headers, sizeof(headers), 1460 } },
			   *bad;
	struct ibv_qp_ex *qp = &q->qp->ib;

	start_at(q, 0);
	if (!ex)
		return post(q, &wr, &bad);
	qp->wr_start(qp);
	qp->wr_send_tso(qp, headers, sizeof(headers), 1460);
	qp->wr_set_inline_data(qp, data, n);
	return qp->wr_complete(qp);
}

/* Six segments of eight are its control segment and headers. */
TEST(inline_data_and_tso_headers_share_a_work_request)
{
	static uint8_t data[128];
	struct ibv_sge sg = { (uintptr_t)data, 92, 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_INLINE },
			   *bad;
	struct queue q;

	open_queue(&q, IBV_QPT_RAW_PACKET);
	check_eq(wr_builder_attach(q.qp, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO), 0);
	q.qp->max_tso_header = 66;
	q.qp->max_inline = 92;
	q.qp->any_inline = 28;
	for (int ex = 0; ex < 2; ex++) {
		check_eq(post_tso(&q, ex, data, 28), 0);
		check_eq(q.qp->sq.pi, 2);
		for (uint32_t n = 29; n <= 92; n++) {
			check_eq(post_tso(&q, ex, data, n), EINVAL);
			check_eq(q.qp->sq.pi, 0);
		}
		check_reason("92 bytes inline behind 6 segments of TSO headers, QP 0x123456 has "
			     "room for 8 segments");
		check_eq(post_tso(&q, ex, data, 93), EINVAL);
		check_reason("93 bytes inline, QP 0x123456 was created with max_inline_data 92");
	}
	check_eq(post(&q, &wr, &bad), 0); /* without headers */
	check_eq(q.qp->sq.pi, 2);
	close_queue(&q);
}

/* READ and atomics bring data here: the flag is ignored, as by hardware's library. */
TEST(what_reads_has_no_inline_data)
{
	struct ibv_sge sg = { 1, 2 * INLINE_MAX, 1 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_INLINE },
			   *bad;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	check_eq(post(&q, &wr, &bad), 0);
	check_eq(get_be32(q.qp->sq.buf + 32), 2 * INLINE_MAX);
	close_queue(&q);
}

TEST(an_sge_has_2_to_the_31_bytes_at_most)
{
	struct ibv_sge sg = { 1, 1U << 31, 1 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sg, .num_sge = 1 }, *bad;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	check_eq(post(&q, &wr, &bad), 0);
	check_eq(get_be32(q.qp->sq.buf + 16), 0); /* which stands for it */
	sg.length++;
	check_eq(post(&q, &wr, &bad), EINVAL);
	check_reason("SGE 0 on QP 0x123456 has 2147483649 bytes");
	close_queue(&q);
}

/* Of a list, the work requests before the bad one are posted, by one ring of the doorbell. */
TEST(a_bad_work_request_stops_the_list_and_keeps_what_came_before)
{
	struct ibv_send_wr wr[3] = { { .next = &wr[1], .wr_id = 7, .opcode = IBV_WR_SEND },
				     { .next = &wr[2], .opcode = IBV_WR_TSO },
				     { .opcode = IBV_WR_SEND } },
			   *bad;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	check_eq(post(&q, wr, &bad), EINVAL);
	check(bad == &wr[1]);
	check_reason("opcode 10 (TSO) is not one of RC QPs, as QP 0x123456 is");
	check_eq(sq_record(&q), 1);
	check_eq(q.qp->sq.head, 1);
	check_eq(q.qp->sq.slot[0].wr_id, 7);
	check_eq(rung.sq, 1);
	close_queue(&q);
}

/* Which verbs a service has. */
TEST(each_service_takes_its_verbs_and_no_others)
{
	enum { S = 1 << IBV_WR_SEND, I = 1 << IBV_WR_SEND_WITH_IMM, V = 1 << IBV_WR_SEND_WITH_INV };
	enum { W = 1 << IBV_WR_RDMA_WRITE | 1 << IBV_WR_RDMA_WRITE_WITH_IMM };
	enum { R = 1 << IBV_WR_RDMA_READ };
	enum { A = 1 << IBV_WR_ATOMIC_CMP_AND_SWP | 1 << IBV_WR_ATOMIC_FETCH_AND_ADD };
	enum { L = 1 << IBV_WR_LOCAL_INV, B = 1 << IBV_WR_BIND_MW, T = 1 << IBV_WR_TSO };
	static const struct {
		enum ibv_qp_type type;
		uint32_t verbs;
	} offers[] = {
		{ IBV_QPT_RC, S | I | V | W | R | A | L | B | 1 << IBV_WR_ATOMIC_WRITE },
		{ IBV_QPT_XRC_SEND, S | I | V | W | R | A | L | B },
		{ IBV_QPT_UC, S | I | W | L | B },
		{ IBV_QPT_UD, S | I },
		{ IBV_QPT_RAW_PACKET, S | T },
		{ IBV_QPT_XRC_RECV, 0 },
	};

	for (unsigned int i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
		for (unsigned int op = 0; op < 20; op++) {
			struct ibv_send_wr wr = { .opcode = op }, *bad;
			bool has = offers[i].verbs >> op & 1;
			struct queue q;

			open_queue(&q, offers[i].type);
			if (!has)
				check_eq(post(&q, &wr, &bad), EINVAL);
			else if (op != IBV_WR_BIND_MW && offers[i].type != IBV_QPT_UD)
				check_eq(post(&q, &wr, &bad), 0); /* no window, no AH here */
			close_queue(&q);
		}
	}
}

RUN_TESTS(unit_test(max_send_sge_is_the_most), unit_test(max_inline_data_is_the_most),
	  unit_test(inline_data_and_tso_headers_share_a_work_request),
	  unit_test(what_reads_has_no_inline_data), unit_test(an_sge_has_2_to_the_31_bytes_at_most),
	  unit_test(a_bad_work_request_stops_the_list_and_keeps_what_came_before),
	  unit_test(each_service_takes_its_verbs_and_no_others))
