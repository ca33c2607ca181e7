// SPDX-License-Identifier: MIT
#include "fixture.h"
#include "hca/async.h"
#include "hca/cq.h"
#include "util/be.h"

enum { CNT = 8 };

struct ring {
	struct fixture *f;
	struct cq *cq;
	struct comp_channel *ch;
	struct ibv_cq user; /* its address only */
	uint32_t ci;
	uint32_t dbrec[2];
	struct mlx5_cqe64 buf[CNT * 2];
};

static void open_ring(struct ring *r, uint32_t cqe_size, bool ignore_overrun)
{
	memset(r, 0, sizeof(*r));
	r->f = fixture_open(8);
	check_eq(comp_channel_create(r->f->ctx, &r->ch), 0);
	cqe_init(r->buf, CNT, cqe_size);
	struct cq_attr attr = { .buf = r->buf,
				.cnt = CNT,
				.cqe_size = cqe_size,
				.dbrec = r->dbrec,
				.channel = r->ch,
				.ignore_overrun = ignore_overrun,
				.user = &r->user };

	check_eq(cq_create(r->f->ctx, &attr, &r->cq), 0);
}

static void close_ring(struct ring *r)
{
	check_eq(comp_channel_destroy(r->ch), EBUSY);
	check_eq(cq_destroy(r->cq), 0);
	check_eq(comp_channel_destroy(r->ch), 0);
	check_eq(r->f->hca.count.cq, 0);
	fixture_close(r->f);
}

static int push(struct ring *r, uint8_t opcode, bool solicited)
{
	return cq_push(r->cq, &(struct cqe){ .opcode = opcode,
					     .solicited = solicited,
					     .wqe_counter = (uint16_t)r->cq->pi });
}

static bool poll(struct ring *r, uint32_t cqe_size, struct cqe *out)
{
	uint8_t *entry = (uint8_t *)r->buf + (size_t)(r->ci % CNT) * cqe_size;
	struct mlx5_cqe64 *e = (struct mlx5_cqe64 *)(entry + cqe_size - 64);

	if (!cqe_ours(e, r->ci, CNT))
		return false;
	cqe_read(e, out);
	put_be32(&r->dbrec[0], ++r->ci & 0xffffff);
	return true;
}

static unsigned int events(struct ring *r)
{
	struct ibv_cq *cq;
	unsigned int n = 0;

	for (; !comp_channel_pop(r->ch, &cq); n++)
		check(cq == &r->user);
	return n;
}

static void entries_come_in_order(uint32_t cqe_size)
{
	struct ring r;
	struct cqe c;

	open_ring(&r, cqe_size, false);
	for (unsigned int i = 0; i < 5 * CNT; i++) {
		check(!poll(&r, cqe_size, &c));
		check_eq(push(&r, MLX5_CQE_REQ, false), 0);
		check_eq(push(&r, MLX5_CQE_REQ, false), 0);
		check(poll(&r, cqe_size, &c));
		check_eq(c.wqe_counter, 2 * i);
		check(poll(&r, cqe_size, &c));
		check_eq(c.wqe_counter, 2 * i + 1);
	}
	close_ring(&r);
}

TEST(entries_come_in_order_through_many_passes)
{
	entries_come_in_order(64);
	entries_come_in_order(128);
}

TEST(overrun_is_final_raised_once_and_overwrites_nothing)
{
	struct ibv_async_event ev;
	struct ring r;
	struct cqe c;

	open_ring(&r, 64, false);
	for (int i = 0; i < CNT; i++)
		check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	check_eq(async_pop(r.f->ctx, &ev), EAGAIN);
	check_eq(push(&r, MLX5_CQE_REQ, false), EOVERFLOW);
	check_reason("overrun: all its 8 entries");
	check_eq(async_pop(r.f->ctx, &ev), 0);
	check_eq(ev.event_type, IBV_EVENT_CQ_ERR);
	check(ev.element.cq == &r.user);
	for (int i = 0; i < CNT; i++) {
		check(poll(&r, 64, &c));
		check_eq(c.wqe_counter, i);
	}
	check_eq(push(&r, MLX5_CQE_REQ, false), EOVERFLOW);
	check(!poll(&r, 64, &c));
	check_eq(async_pop(r.f->ctx, &ev), EAGAIN);
	close_ring(&r);
}

TEST(overrun_is_judged_by_the_consumer_index_modulo_24_bits)
{
	struct ring r;

	open_ring(&r, 64, false);
	r.cq->pi = 0x1000004;
	put_be32(&r.dbrec[0], 3); /* it has wrapped, too */
	check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	r.cq->pi = 0x1000004;
	put_be32(&r.dbrec[0], 0xfffffe);
	check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	check_eq(push(&r, MLX5_CQE_REQ, false), EOVERFLOW);
	close_ring(&r);
}

TEST(overrun_can_be_ignored)
{
	struct ring r;

	open_ring(&r, 64, true);
	for (int i = 0; i < 3 * CNT; i++)
		check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	close_ring(&r);
}

/* The device looks at the consumer's record in the new place from the switch on. */
TEST(a_ring_and_its_record_move_together)
{
	struct mlx5_cqe64 to[CNT];
	struct cqe_ring ring = { (uint8_t *)to, CNT, sizeof(to[0]) };
	uint32_t dbrec[2] = { 0 };
	struct ring r;
	struct cqe c;

	open_ring(&r, 64, false);
	cqe_init(to, CNT, sizeof(to[0]));
	for (int i = 0; i < CNT; i++)
		check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	check(poll(&r, 64, &c));
	check_eq(cq_switch(r.cq, &ring, dbrec, r.ci), CNT - 1);
	put_be32(&dbrec[0], CNT); /* all are read */
	for (int i = 0; i < CNT; i++)
		check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	check_eq(cq_consumed(r.cq), CNT);
	check_eq(push(&r, MLX5_CQE_REQ, false), EOVERFLOW);
	close_ring(&r);
}

TEST(one_event_for_one_arm)
{
	struct ring r;

	open_ring(&r, 64, true);
	check_eq(push(&r, MLX5_CQE_REQ, true), 0); /* not armed */
	check_eq(events(&r), 0);
	cq_arm(r.cq, false);
	check_eq(events(&r), 0); /* what was written before does not count */
	check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	check_eq(events(&r), 1);
	close_ring(&r);
}

TEST(a_solicited_arm_waits_for_solicited_or_error)
{
	static const struct {
		uint8_t opcode;
		bool solicited;
		unsigned int events;
	} cases[] = {
		{ MLX5_CQE_REQ, false, 0 },	 { MLX5_CQE_RESP_SEND, false, 0 },
		{ MLX5_CQE_RESP_SEND, true, 1 }, { MLX5_CQE_REQ_ERR, false, 1 },
		{ MLX5_CQE_RESP_ERR, false, 1 },
	};
	struct ring r;

	open_ring(&r, 64, true);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cq_arm(r.cq, true);
		check_eq(push(&r, cases[i].opcode, cases[i].solicited), 0);
		check_eq(events(&r), cases[i].events);
	}
	close_ring(&r);
}

TEST(a_solicited_arm_does_not_weaken_an_arm_for_any)
{
	struct ring r;

	open_ring(&r, 64, true);
	cq_arm(r.cq, false);
	cq_arm(r.cq, true);
	check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	check_eq(events(&r), 1);
	cq_arm(r.cq, true);
	cq_arm(r.cq, false);
	check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	check_eq(events(&r), 1);
	close_ring(&r);
}

TEST(destroy_is_busy_while_used_and_drops_events)
{
	struct ibv_cq *cq;
	struct ring r;

	open_ring(&r, 64, false);
	cq_get(r.cq);
	check_eq(cq_destroy(r.cq), EBUSY);
	check_reason("in use by 1 queue");
	cq_put(r.cq);
	cq_arm(r.cq, false);
	check_eq(push(&r, MLX5_CQE_REQ, false), 0);
	check_eq(cq_destroy(r.cq), 0);
	check_eq(comp_channel_pop(r.ch, &cq), EAGAIN);
	check_eq(comp_channel_destroy(r.ch), 0);
	fixture_close(r.f);
}

TEST(a_channel_of_another_context_is_refused)
{
	struct context *other;
	struct ring r;
	struct cq *cq;

	open_ring(&r, 64, false);
	check_eq(context_create(&r.f->hca, NULL, &other), 0);
	check_eq(cq_create(other, &(struct cq_attr){ .channel = r.ch }, &cq), EINVAL);
	context_destroy(other);
	close_ring(&r);
}

TEST(max_cq_queues_can_be_made_and_not_one_more)
{
	struct fixture *f = fixture_open(8);
	struct cq **cq = calloc(LIMIT_CQ, sizeof(*cq)), *more;

	for (int i = 0; i < LIMIT_CQ; i++)
		check_eq(cq_create(f->ctx, &(struct cq_attr){ 0 }, &cq[i]), 0);
	check_eq(cq_create(f->ctx, &(struct cq_attr){ 0 }, &more), ENOMEM);
	for (int i = 0; i < LIMIT_CQ; i++)
		check_eq(cq_destroy(cq[i]), 0);
	free(cq);
	fixture_close(f);
}

RUN_TESTS(unit_test(entries_come_in_order_through_many_passes),
	  unit_test(overrun_is_final_raised_once_and_overwrites_nothing),
	  unit_test(overrun_is_judged_by_the_consumer_index_modulo_24_bits),
	  unit_test(overrun_can_be_ignored), unit_test(a_ring_and_its_record_move_together),
	  unit_test(one_event_for_one_arm), unit_test(a_solicited_arm_waits_for_solicited_or_error),
	  unit_test(a_solicited_arm_does_not_weaken_an_arm_for_any),
	  unit_test(destroy_is_busy_while_used_and_drops_events),
	  unit_test(a_channel_of_another_context_is_refused),
	  unit_test(max_cq_queues_can_be_made_and_not_one_more))
