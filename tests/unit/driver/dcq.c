// SPDX-License-Identifier: MIT
/* What happens to unread entries: a purge takes those of one object and gives the slots of
 * its shared receives back, a resize keeps them all. No node: entries are pushed by hand. */
#include "../hca/fixture.h"
#include "driver/cq_poll.h"
#include "driver/dcq.h"
#include "driver/dqp.h"
#include "driver/dsrq.h"
#include "util/be.h"

enum { QPS = 2 };

struct bench {
	struct fixture *f;
	struct dcq *cq;
	struct dqp *qp[QPS]; /* as much of a QP as a completion looks at */
};

static void open_form(struct bench *b, unsigned int cqe, const struct dcq_form *form)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = cqe };

	*b = (struct bench){ .f = fixture_open(8) };
	check_eq(dcq_create(b->f->ctx, &attr, form, &b->cq), 0);
	for (int i = 0; i < QPS; i++) {
		b->qp[i] = aligned_alloc(64, sizeof(struct dqp));
		memset(b->qp[i], 0, sizeof(struct dqp));
		check_eq(objects_add(OBJECT_QP, b->qp[i], &b->qp[i]->uidx), 0);
	}
}

static void open_bench(struct bench *b, unsigned int cqe)
{
	open_form(b, cqe, &(struct dcq_form){ 0 });
}

static void close_bench(struct bench *b)
{
	for (int i = 0; i < QPS; i++) {
		objects_del(b->qp[i]->uidx);
		free(b->qp[i]);
	}
	check_eq(dcq_destroy(b->cq), 0);
	fixture_close(b->f);
}

static void push(struct bench *b, int qp, uint8_t opcode, uint16_t counter)
{
	struct cqe c = { .opcode = opcode, .uidx = b->qp[qp]->uidx, .wqe_counter = counter };

	check_eq(cq_push(b->cq->dev, &c), 0);
}

/* Reads the next entry as its consumer would; false: there is none. */
static bool take(struct bench *b, struct cqe *c)
{
	struct dcq *cq = b->cq;
	const struct mlx5_cqe64 *e = dcq_ring_next(cq);

	if (!cqe_ours(e, cq->ci, cq->cnt))
		return false;
	cqe_read(e, c);
	put_be32(&cq->dbrec[0], ++cq->ci & 0xffffff);
	return true;
}

/* All that is left are @n entries of QP @qp with counters @first, @first + @step… */
static void check_left(struct bench *b, int qp, unsigned int n, uint16_t first, uint16_t step)
{
	struct cqe c;

	for (unsigned int i = 0; i < n; i++) {
		check(take(b, &c));
		check_eq(c.uidx, b->qp[qp]->uidx);
		check_eq(c.wqe_counter, first + i * step);
	}
	check(!take(b, &c));
}

/* At every place of the ring, so that the owner bit turns at any of them. */
TEST(a_purge_takes_one_objects_entries_and_no_others)
{
	struct bench b;

	open_bench(&b, 15);
	for (int round = 0; round < 40; round++) {
		for (uint16_t i = 0; i < 7; i++)
			push(&b, i & 1, MLX5_CQE_REQ, i);
		dcq_ring_purge(b.cq, b.qp[0]->uidx); /* 0 2 4 6 */
		check_left(&b, 1, 3, 1, 2);
		for (uint16_t i = 0; i < 4; i++)
			push(&b, 0, MLX5_CQE_REQ, i);
		dcq_ring_purge(b.cq, b.qp[0]->uidx);
		check_left(&b, 0, 0, 0, 0);
	}
	close_bench(&b);
}

TEST(a_purge_sweeps_a_full_ring)
{
	struct bench b;

	open_bench(&b, 15);
	for (int round = 0; round < 40; round++) {
		uint16_t n = 0;

		for (; n < b.cq->cnt; n++)
			push(&b, n & 1, MLX5_CQE_REQ, n);
		dcq_ring_purge(b.cq, b.qp[round & 1]->uidx);
		check_left(&b, !(round & 1), n / 2, !(round & 1), 2);
		push(&b, 0, MLX5_CQE_REQ, 0); /* the next round begins one place on */
		check_left(&b, 0, 1, 0, 0);
	}
	close_bench(&b);
}

TEST(a_resize_keeps_what_waits_at_every_place)
{
	static const int sizes[] = { 7, 31, 15, 63, 7 };
	struct bench b;

	open_bench(&b, 15);
	for (int round = 0; round < 100; round++) {
		for (uint16_t i = 0; i < 5; i++)
			push(&b, 0, MLX5_CQE_REQ, i);
		check_eq(dcq_resize(b.cq, sizes[round % 5]), 0);
		check_left(&b, 0, 5, 0, 1);
	}
	close_bench(&b);
}

/* The slots of a shared receive queue that stand between @head and the end of the free list */
static unsigned int free_slots(const struct dsrq *s)
{
	unsigned int n = 0;

	for (uint32_t i = s->head; i != s->tail && n <= s->cnt; n++)
		i = get_be16(s->buf + (size_t)i * s->stride + 2);
	return n;
}

TEST(a_purge_gives_shared_receives_back)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = 7, .max_sge = 1 } };
	struct dsrq *srq;
	struct bench b;

	open_bench(&b, 15);
	check_eq(dsrq_create(b.f->pd, &attr, &srq), 0);
	b.qp[0]->ib.qp_base.srq = b.qp[1]->ib.qp_base.srq = &srq->ib;
	check_eq(free_slots(srq), 7);
	srq->head = 4; /* 0..3 are posted */
	check_eq(free_slots(srq), 3);
	push(&b, 0, MLX5_CQE_RESP_SEND, 2);
	push(&b, 0, MLX5_CQE_REQ, 3); /* a send: its number is no slot */
	push(&b, 1, MLX5_CQE_RESP_SEND, 0);
	push(&b, 0, MLX5_CQE_RESP_ERR, 1);
	dcq_ring_purge(b.cq, b.qp[0]->uidx);
	check_eq(free_slots(srq), 5); /* 2 and 1 came back, 0 is still to be polled */
	check_left(&b, 1, 1, 0, 0);
	check_eq(dsrq_destroy(srq), 0);
	close_bench(&b);
}

/* Of a turn; @list: as cq_push_run() has it. */
static void receives(struct bench *b, int qp, unsigned int n, uint16_t first, struct cq **list)
{
	for (unsigned int i = 0; i < n; i++) {
		struct cqe c = { .opcode = MLX5_CQE_RESP_SEND,
				 .uidx = b->qp[qp]->uidx,
				 .wqe_counter = (uint16_t)(first + i) };

		check_eq(cq_push_run(b->cq->dev, &c, list), 0);
	}
}

/* The sender may have its ACK, so a poll that found nothing would be wrong. */
TEST(a_poll_finds_what_another_thread_holds_back)
{
	const struct dcq_form form = { .compressed = MLX5DV_CQE_RES_FORMAT_HASH };
	struct cq *list = NULL;
	struct bench b;

	open_form(&b, 63, &form);
	check(!cq_poll_ready(b.cq));
	receives(&b, 0, 3, 0, &list);
	check(cq_poll_ready(b.cq));
	check_eq(cq_written(b.cq->dev), 3);
	cq_run_end(&list);
	dcq_ring_purge(b.cq, b.qp[0]->uidx);
	close_bench(&b);
}

/* At every place of the ring: sessions of both, and some of either that are delayed still. */
TEST(a_purge_takes_completions_out_of_sessions)
{
	const struct dcq_form form = { .compressed = MLX5DV_CQE_RES_FORMAT_CSUM };

	for (int gone = 0; gone < QPS; gone++) {
		struct cq *list = NULL;
		struct bench b;

		open_form(&b, 63, &form);
		for (int round = 0; round < 70; round++) {
			receives(&b, 0, 11, 0, &list);
			receives(&b, 1, 9, 0, &list);
			receives(&b, 0, 3, 11, &list);
			dcq_ring_purge(b.cq, b.qp[gone]->uidx);
			check_left(&b, !gone, gone ? 14 : 9, 0, 1);
			cq_run_end(&list);
			check_left(&b, !gone, 0, 0, 0);
		}
		close_bench(&b);
	}
}

TEST(a_resize_keeps_the_completions_of_sessions)
{
	static const int sizes[] = { 31, 63, 127 };
	const struct dcq_form form = { .compressed = MLX5DV_CQE_RES_FORMAT_HASH };
	struct cq *list = NULL;
	struct bench b;

	open_form(&b, 31, &form);
	for (int round = 0; round < 60; round++) {
		receives(&b, 0, 12, 0, &list);
		cq_run_end(&list);
		receives(&b, 0, 12, 12, &list);
		check_eq(dcq_resize(b.cq, sizes[round % 3]), 0);
		check_left(&b, 0, 24, 0, 1);
	}
	cq_run_end(&list);
	close_bench(&b);
}

/* Whoever brought the entry: the peer's process may have, or a direct WRITE. */
TEST(a_poll_that_finds_something_is_not_in_vain)
{
	enum { POLLS = 7 };
	struct bench b;

	open_bench(&b, 8);
	vain_mine.polls = POLLS;
	check(!cq_poll_ready(b.cq));
	check_eq(vain_mine.polls, POLLS);
	push(&b, 0, MLX5_CQE_REQ, 0);
	check(cq_poll_ready(b.cq));
	check_eq(vain_mine.polls, 0);
	close_bench(&b);
}

RUN_TESTS(unit_test(a_purge_takes_one_objects_entries_and_no_others),
	  unit_test(a_purge_sweeps_a_full_ring),
	  unit_test(a_resize_keeps_what_waits_at_every_place),
	  unit_test(a_purge_gives_shared_receives_back),
	  unit_test(a_poll_finds_what_another_thread_holds_back),
	  unit_test(a_poll_that_finds_something_is_not_in_vain),
	  unit_test(a_purge_takes_completions_out_of_sessions),
	  unit_test(a_resize_keeps_the_completions_of_sessions))
