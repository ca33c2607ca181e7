// SPDX-License-Identifier: MIT
/* A slot is free again when its completion was polled, and no sooner: of a send queue, a receive
 * queue, a shared receive queue, a work queue. */
#include "completions.h"
#include "driver/dsrq_ring.h"

enum { SLOTS = 4, STRIDE = 32 };

static int post_send(struct queue *q, unsigned int flags)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = flags }, *bad;

	return dqp_post_send(&q->qp->ib.qp_base, &wr, &bad);
}

static int post_recv(struct queue *q, uint64_t id)
{
	struct ibv_recv_wr wr = { .wr_id = id }, *bad;

	return dqp_post_recv(&q->qp->ib.qp_base, &wr, &bad);
}

static void complete(struct completions *c, uint32_t uidx, uint8_t opcode, uint16_t counter)
{
	struct ibv_wc wc[1];

	write_cqe(c, &(struct cqe){ .opcode = opcode, .uidx = uidx, .wqe_counter = counter });
	check_eq(poll_cq(c, wc, 1), 1);
}

/* A completion frees every send up to its own: those before it were unsignalled. */
TEST(a_send_s_completion_frees_those_before_it)
{
	struct completions c;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	open_completions(&c);
	check_eq(objects_add(OBJECT_QP, q.qp, &q.qp->uidx), 0);
	for (unsigned int round = 0; round < 100; round++) {
		uint16_t first = (uint16_t)q.qp->sq.pi;

		for (int i = 0; i < 4; i++)
			check_eq(post_send(&q, 0), 0);
		check_eq(post_send(&q, 0), ENOMEM);
		complete(&c, q.qp->uidx, MLX5_CQE_REQ, (uint16_t)(first + 2));
		for (int i = 0; i < 3; i++)
			check_eq(post_send(&q, 0), 0);
		check_eq(post_send(&q, 0), ENOMEM);
		complete(&c, q.qp->uidx, MLX5_CQE_REQ_ERR, (uint16_t)(first + 6));
		check_eq(q.qp->sq.tail, q.qp->sq.head);
	}
	objects_del(q.qp->uidx);
	close_completions(&c);
	close_queue(&q);
}

TEST(each_receive_frees_its_own)
{
	struct completions c;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	open_completions(&c);
	check_eq(objects_add(OBJECT_QP, q.qp, &q.qp->uidx), 0);
	for (unsigned int i = 0; i < RECEIVES; i++)
		check_eq(post_recv(&q, i), 0);
	for (unsigned int i = 0; i < 100; i++) {
		check_eq(post_recv(&q, 0), ENOMEM);
		check_reason("all 4 receive work requests of QP 0x123456 are posted");
		complete(&c, q.qp->uidx, i & 1 ? MLX5_CQE_RESP_ERR : MLX5_CQE_RESP_SEND,
			 (uint16_t)i);
		check_eq(post_recv(&q, 1000 + i), 0);
		check_eq(q.receive_ids[i % RECEIVES], 1000 + i);
	}
	check_eq(q.qp->sq.tail, 0); /* the send queue has nothing of it */
	objects_del(q.qp->uidx);
	close_completions(&c);
	close_queue(&q);
}

struct shared {
	struct dsrq *srq;
	uint8_t buf[SLOTS * STRIDE];
	uint64_t wr_id[SLOTS];
};

static void open_shared(struct shared *s)
{
	s->srq = aligned_alloc(64, sizeof(*s->srq));
	memset(s->srq, 0, sizeof(*s->srq));
	s->srq->dbrec = s->srq->record;
	s->srq->epoch = fork_epoch();
	s->srq->buf = s->buf;
	s->srq->wr_id = s->wr_id;
	s->srq->cnt = SLOTS;
	s->srq->stride = STRIDE;
	s->srq->max_wr = SLOTS - 1;
	s->srq->max_sge = 1;
	spin_init(&s->srq->lock);
	dsrq_ring_init(s->srq);
}

static int post_shared(struct shared *s, uint64_t id)
{
	struct ibv_recv_wr wr = { .wr_id = id }, *bad;

	return dsrq_post_recv(&s->srq->ib, &wr, &bad);
}

TEST(shared_receives_go_back_to_the_free_list)
{
	struct completions c;
	struct shared s;
	struct queue q;

	open_queue(&q, IBV_QPT_RC);
	open_completions(&c);
	open_shared(&s);
	q.qp->ib.qp_base.srq = &s.srq->ib;
	check_eq(objects_add(OBJECT_QP, q.qp, &q.qp->uidx), 0);
	for (unsigned int i = 0; i < SLOTS - 1; i++)
		check_eq(post_shared(&s, 10 + i), 0);
	for (unsigned int i = 0; i < 50; i++) {
		uint16_t slot = (uint16_t)((i * 3) % SLOTS);

		if (slot == s.srq->head)
			slot = (uint16_t)((slot + 1) % SLOTS); /* that one is free */
		check_eq(post_shared(&s, 1), ENOMEM);
		complete(&c, q.qp->uidx, MLX5_CQE_RESP_SEND, slot);
		check_eq(s.srq->tail, slot);
		check_eq(s.srq->used, SLOTS - 2);
		check_eq(post_shared(&s, 1000 + i), 0);
	}
	check_eq(q.qp->rq.tail, 0);
	objects_del(q.qp->uidx);
	free(s.srq);
	close_completions(&c);
	close_queue(&q);
}

/* The entry names the SRQ: of an XRC domain, where the QP may be another process'. */
TEST(an_xrc_receive_names_the_srq_alone)
{
	struct completions c;
	struct ibv_wc wc[1];
	struct shared s;

	open_completions(&c);
	open_shared(&s);
	check_eq(objects_add(OBJECT_SRQ, s.srq, &s.srq->uidx), 0);
	check_eq(post_shared(&s, 77), 0);
	write_cqe(&c, &(struct cqe){ .opcode = MLX5_CQE_RESP_SEND_IMM,
				     .uidx = s.srq->uidx,
				     .qpn = 0x4711,
				     .imm = 3 });
	check_eq(poll_cq(&c, wc, 1), 1);
	check_eq(wc[0].wr_id, 77);
	check_eq(wc[0].qp_num, 0x4711);
	check_eq(wc[0].wc_flags, IBV_WC_WITH_IMM);
	check_eq(s.srq->used, 0);
	objects_del(s.srq->uidx);
	free(s.srq);
	close_completions(&c);
}

TEST(a_work_queue_s_entry_frees_one_of_its_slots)
{
	uint64_t ids[SLOTS] = { 5, 6, 7, 8 };
	struct dwq *wq = aligned_alloc(64, sizeof(*wq));
	struct completions c;
	struct ibv_wc wc[1];

	open_completions(&c);
	memset(wq, 0, sizeof(*wq));
	wq->dbrec = wq->record;
	wq->rq = (struct dqp_rq){ .cnt = SLOTS, .wr_id = ids, .head = SLOTS };
	wq->ib.wq_num = 0x99;
	check_eq(objects_add(OBJECT_WQ, wq, &wq->uidx), 0);
	for (uint16_t i = 0; i < SLOTS; i++) {
		write_cqe(&c, &(struct cqe){ .opcode = MLX5_CQE_RESP_SEND,
					     .uidx = wq->uidx,
					     .wqe_counter = i,
					     .csum_ok = i & 1 });
		check_eq(poll_cq(&c, wc, 1), 1);
		check_eq(wc[0].wr_id, 5 + i);
		check_eq(wc[0].qp_num, 0x99);
		check_eq(wc[0].opcode, IBV_WC_RECV);
		check_eq(wc[0].wc_flags, i & 1 ? IBV_WC_IP_CSUM_OK : 0);
		check_eq(wq->rq.tail, i + 1);
	}
	objects_del(wq->uidx);
	free(wq);
	close_completions(&c);
}

/* Three entries of one receive, which a filler ends, then an error that ends the next. */
TEST(the_last_entry_of_a_striding_receive_frees_its_slot)
{
	static const struct {
		struct cqe e;
		uint64_t wr_id;
		uint32_t tail;
	} rows[] = {
		{ { .wqe_counter = 0, .byte_cnt = 100 | 2 << CQE_STRIDES_SHIFT }, 5, 0 },
		{ { .wqe_counter = 2, .byte_cnt = 60 | 1 << CQE_STRIDES_SHIFT }, 5, 0 },
		{ { .wqe_counter = 3, .byte_cnt = CQE_FILLER | 5 << CQE_STRIDES_SHIFT }, 5, 1 },
		{ { .wqe_id = 1, .byte_cnt = 60 | 8 << CQE_STRIDES_SHIFT }, 6, 2 },
		{ { .wqe_id = 2, .byte_cnt = 60 | 7 << CQE_STRIDES_SHIFT }, 7, 2 },
		{ { .opcode = MLX5_CQE_RESP_ERR,
		    .syndrome = MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
		    .wqe_counter = 2 },
		  7,
		  3 },
	};
	uint64_t ids[SLOTS] = { 5, 6, 7, 8 };
	struct dwq *wq = aligned_alloc(64, sizeof(*wq));
	struct completions c;
	struct ibv_wc wc[1];

	open_completions(&c);
	memset(wq, 0, sizeof(*wq));
	wq->strides = (struct stride_form){ 6, 3, false };
	wq->rq = (struct dqp_rq){ .cnt = SLOTS, .wr_id = ids, .head = SLOTS };
	check_eq(objects_add(OBJECT_WQ, wq, &wq->uidx), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cqe e = rows[i].e;

		e.uidx = wq->uidx;
		e.app_op = e.syndrome ? 0 : CQE_STRIDED;
		e.opcode = e.syndrome ? e.opcode : MLX5_CQE_RESP_SEND;
		write_cqe(&c, &e);
		check_eq(poll_cq(&c, wc, 1), 1);
		check_eq(wc[0].wr_id, rows[i].wr_id);
		check_eq(wq->rq.tail, rows[i].tail);
		if (e.app_op)
			check_eq(wc[0].byte_len, e.byte_cnt);
	}
	objects_del(wq->uidx);
	free(wq);
	close_completions(&c);
}

RUN_TESTS(unit_test(a_send_s_completion_frees_those_before_it),
	  unit_test(each_receive_frees_its_own),
	  unit_test(shared_receives_go_back_to_the_free_list),
	  unit_test(an_xrc_receive_names_the_srq_alone),
	  unit_test(a_work_queue_s_entry_frees_one_of_its_slots),
	  unit_test(the_last_entry_of_a_striding_receive_frees_its_slot))
