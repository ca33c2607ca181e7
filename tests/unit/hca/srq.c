// SPDX-License-Identifier: MIT
#include "fixture.h"
#include "hca/async.h"
#include "hca/srq.h"
#include "util/be.h"

enum { CNT = 8, STRIDE = 32 };

struct ring {
	uint8_t buf[CNT * STRIDE];
	uint32_t dbrec;
};

static struct rq_ring ring_of(struct ring *r)
{
	memset(r, 0, sizeof(*r));
	return (struct rq_ring){ r->buf, CNT, STRIDE, &r->dbrec };
}

static void post(struct ring *r, uint16_t count)
{
	put_be32(&r->dbrec, count);
}

TEST(rq_gives_what_the_record_covers_and_no_more)
{
	struct ring r;
	struct rq rq = { .ring = ring_of(&r), .head = 0xfffc };
	struct rwqe w;

	post(&r, 0xfffc);
	check_eq(rq_take(&rq, &w), ENOENT);
	post(&r, 2); /* six more, over the wrap of 16 bits */
	check_eq(rq_posted(&rq), 6);
	for (int i = 0; i < 6; i++) {
		check_eq(rq_take(&rq, &w), 0);
		check_eq(w.idx, (uint16_t)(0xfffc + i));
	}
	check_eq(rq_take(&rq, &w), ENOENT);
}

TEST(rq_believes_no_record_beyond_its_ring)
{
	struct ring r;
	struct rq rq = { .ring = ring_of(&r) }, none = { 0 };
	struct rwqe w;

	post(&r, 0x8000);
	check_eq(rq_posted(&rq), CNT);
	check_eq(rq_posted(&none), 0);
	check_eq(rq_take(&none, &w), ENOENT);
}

/* Slot i links to i + 1. */
static struct srq *open_srq(struct fixture *f, struct ring *r, uint32_t limit, void *user)
{
	struct srq_attr attr = {
		.ring = ring_of(r), .max_wr = CNT - 1, .max_sge = 1, .limit = limit, .user = user
	};
	struct srq *srq;

	for (int i = 0; i < CNT; i++)
		put_be16(r->buf + i * STRIDE + 2, (uint16_t)((i + 1) % CNT));
	check_eq(srq_create(f->pd, &attr, &srq), 0);
	return srq;
}

TEST(srq_follows_the_links)
{
	struct fixture *f = fixture_open(8);
	struct ring r;
	struct srq *srq = open_srq(f, &r, 0, NULL);
	struct rwqe w;

	put_be16(r.buf + 1 * STRIDE + 2, 5);
	post(&r, 3);
	check_eq(srq_posted(srq), 3);
	for (int i = 0; i < 3; i++) {
		static const int slots[] = { 0, 1, 5 };

		check_eq(srq_take(srq, &w), 0);
		check_eq(w.idx, slots[i]);
	}
	check_eq(srq_take(srq, &w), ENOENT);
	check_eq(srq_destroy(srq), 0);
	fixture_close(f);
}

TEST(srq_survives_hostile_links_and_records)
{
	struct fixture *f = fixture_open(8);
	struct ring r;
	struct srq *srq = open_srq(f, &r, 0, NULL);
	struct rwqe w;

	memset(r.buf, 0xff, sizeof(r.buf));
	post(&r, 0xffff);
	check_eq(srq_posted(srq), CNT);
	for (int i = 0; i < 1000; i++) {
		check_eq(srq_take(srq, &w), 0);
		check(w.idx < CNT);
		check(srq->next < CNT);
	}
	check_eq(srq_destroy(srq), 0);
	fixture_close(f);
}

TEST(the_limit_fires_once_when_fewer_are_left)
{
	struct fixture *f = fixture_open(8);
	struct ibv_async_event ev;
	struct ibv_srq user;
	struct ring r;
	struct srq *srq = open_srq(f, &r, 3, &user);
	struct rwqe w;

	post(&r, 7);
	for (int left = 6; left >= 3; left--) {
		check_eq(srq_take(srq, &w), 0);
		check_eq(async_pop(f->ctx, &ev), EAGAIN);
	}
	check_eq(srq_take(srq, &w), 0); /* two are left */
	check_eq(async_pop(f->ctx, &ev), 0);
	check_eq(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	check(ev.element.srq == &user);
	check_eq(srq_take(srq, &w), 0);
	check_eq(async_pop(f->ctx, &ev), EAGAIN);
	check_eq(srq_set_limit(srq, 2), 0);
	check_eq(srq_take(srq, &w), 0);
	check_eq(async_pop(f->ctx, &ev), 0);
	check_eq(srq_destroy(srq), 0);
	fixture_close(f);
}

TEST(limits_above_max_wr_are_refused)
{
	struct fixture *f = fixture_open(8);
	struct ring r;
	struct srq *srq = open_srq(f, &r, 0, NULL), *more;

	check_eq(srq_set_limit(srq, CNT - 1), 0);
	check_eq(srq_set_limit(srq, CNT), EINVAL);
	check_reason("srq_limit 8 is above max_wr 7");
	check_eq(srq_create(f->pd, &(struct srq_attr){ .max_wr = 4, .limit = 5 }, &more), EINVAL);
	check_eq(srq_destroy(srq), 0);
	fixture_close(f);
}

TEST(destroy_is_busy_while_used)
{
	struct fixture *f = fixture_open(8);
	struct ring r;
	struct srq *srq = open_srq(f, &r, 0, NULL);

	check_eq(pd_destroy(f->pd), EBUSY);
	srq_get(srq);
	check_eq(srq_destroy(srq), EBUSY);
	srq_put(srq);
	check_eq(srq_destroy(srq), 0);
	check_eq(f->hca.count.srq, 0);
	fixture_close(f);
}

TEST(max_srq_queues_can_be_made_and_not_one_more)
{
	struct fixture *f = fixture_open(8);
	struct srq **srq = calloc(LIMIT_SRQ, sizeof(*srq)), *more;

	for (int i = 0; i < LIMIT_SRQ; i++)
		check_eq(srq_create(f->pd, &(struct srq_attr){ 0 }, &srq[i]), 0);
	check_eq(srq_create(f->pd, &(struct srq_attr){ 0 }, &more), ENOMEM);
	for (int i = 0; i < LIMIT_SRQ; i++)
		check_eq(srq_destroy(srq[i]), 0);
	free(srq);
	fixture_close(f);
}

RUN_TESTS(unit_test(rq_gives_what_the_record_covers_and_no_more),
	  unit_test(rq_believes_no_record_beyond_its_ring), unit_test(srq_follows_the_links),
	  unit_test(srq_survives_hostile_links_and_records),
	  unit_test(the_limit_fires_once_when_fewer_are_left),
	  unit_test(limits_above_max_wr_are_refused), unit_test(destroy_is_busy_while_used),
	  unit_test(max_srq_queues_can_be_made_and_not_one_more))
