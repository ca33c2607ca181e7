// SPDX-License-Identifier: MIT
/* Completions that a CQ delays to compress them: when they become the program's, and that none
 * waits longer than its turn. */
#include <stdlib.h>
#include "fixture.h"
#include "hca/async.h"
#include "hca/cq.h"
#include "util/be.h"

enum { CNT = 128, HASH = MLX5DV_CQE_RES_FORMAT_HASH };

struct ring {
	struct fixture *f;
	struct cq *cq;
	struct comp_channel *ch;
	struct ibv_cq user; /* its address only */
	uint32_t dbrec[2];
	uint16_t next; /* counter of the next receive */
	struct mlx5_cqe64 buf[CNT];
};

static void open_queue(struct ring *r, uint32_t cnt, uint8_t extras)
{
	memset(r, 0, sizeof(*r));
	r->f = fixture_open(8);
	check_eq(comp_channel_create(r->f->ctx, &r->ch), 0);
	cqe_init(r->buf, CNT, 64);
	struct cq_attr attr = { .buf = (uint8_t *)r->buf,
				.cnt = cnt,
				.cqe_size = 64,
				.dbrec = r->dbrec,
				.channel = r->ch,
				.extras = extras,
				.compressed = HASH,
				.user = &r->user };

	check_eq(cq_create(r->f->ctx, &attr, &r->cq), 0);
}

static void close_queue(struct ring *r)
{
	check_eq(cq_destroy(r->cq), 0);
	check_eq(comp_channel_destroy(r->ch), 0);
	fixture_close(r->f);
}

static int receive_as(struct ring *r, uint32_t uidx, bool solicited, struct cq **list)
{
	return cq_push_run(r->cq,
			   &(struct cqe){ .opcode = MLX5_CQE_RESP_SEND,
					  .uidx = uidx,
					  .solicited = solicited,
					  .wqe_counter = r->next++ },
			   list);
}

static void receives(struct ring *r, unsigned int n, struct cq **list)
{
	while (n--)
		check_eq(receive_as(r, 1, false, list), 0);
}

/* Completions of the session at entry @i; 1: an ordinary entry. */
static uint32_t session_at(const struct ring *r, uint32_t i)
{
	const struct mlx5_cqe64 *e = &r->buf[i % r->cq->cnt];

	check(cqe_ours(e, i, r->cq->cnt));
	return cqe_is_title(e) ? be32toh(e->byte_cnt) : 1;
}

static unsigned int events(struct ring *r)
{
	struct ibv_cq *cq;
	unsigned int n = 0;

	for (; !comp_channel_pop(r->ch, &cq); n++)
		check(cq == &r->user);
	return n;
}

TEST(entries_of_a_turn_are_there_at_its_end)
{
	struct cq *list = NULL;
	struct ring r;

	open_queue(&r, CNT, 0);
	receives(&r, 20, &list);
	check(list == r.cq);
	check_eq(cq_written(r.cq), 0);
	check(!cqe_ours(&r.buf[0], 0, CNT));
	cq_run_end(&list);
	check(!list);
	check_eq(cq_written(r.cq), 20);
	check_eq(session_at(&r, 0), 20);
	receives(&r, 1, &list);
	cq_run_end(&list);
	check_eq(session_at(&r, 20), 1);
	cq_run_end(&list);
	check_eq(cq_written(r.cq), 21);
	close_queue(&r);
}

TEST(what_cannot_join_ends_a_session)
{
	struct cq *list = NULL;
	struct ring r;

	open_queue(&r, CNT, 0);
	receives(&r, 5, &list);
	check_eq(receive_as(&r, 2, false, &list), 0);
	check_eq(cq_written(r.cq), 5);
	check_eq(cq_push(r.cq, &(struct cqe){ .opcode = MLX5_CQE_REQ }), 0); /* ordinary */
	check_eq(cq_written(r.cq), 7);
	check_eq(session_at(&r, 0), 5);
	check_eq(session_at(&r, 5), 1);
	check_eq(session_at(&r, 6), 1);
	receives(&r, CQE_SESSION_MAX + 3, &list);
	check_eq(cq_written(r.cq), 7 + CQE_SESSION_MAX);
	check_eq(cq_push_inlined(r.cq, &(struct cqe){ .opcode = MLX5_CQE_RESP_SEND }, ""), 0);
	check_eq(session_at(&r, 7), CQE_SESSION_MAX);
	check_eq(session_at(&r, 7 + CQE_SESSION_MAX), 3);
	check_eq(session_at(&r, 10 + CQE_SESSION_MAX), 1);
	cq_run_end(&list);
	close_queue(&r);
}

/* An event tells of an entry that is there, and an arm of all before it. */
TEST(an_armed_queue_holds_nothing_back)
{
	struct cq *list = NULL;
	struct ring r;

	open_queue(&r, CNT, 0);
	receives(&r, 3, &list);
	cq_arm(r.cq, false);
	check_eq(cq_written(r.cq), 3);
	check_eq(events(&r), 0);
	receives(&r, 1, &list);
	check_eq(cq_written(r.cq), 4);
	check_eq(events(&r), 1);
	receives(&r, 4, &list); /* it is armed no more */
	check_eq(cq_written(r.cq), 4);
	cq_run_end(&list);
	check_eq(session_at(&r, 4), 4);
	check_eq(events(&r), 0);
	close_queue(&r);
}

/* The consumer was at @ci when it armed, for solicited entries. */
static unsigned int armed_since(struct ring *r, uint32_t ci)
{
	cq_arm_since(r->cq, true, ci);
	return events(r);
}

TEST(a_late_arm_knows_what_is_solicited_in_sessions)
{
	struct cq *list = NULL;
	struct ring r;

	open_queue(&r, CNT, 0);
	receives(&r, 3, &list);
	check_eq(armed_since(&r, 0), 0);
	cq_arm(r.cq, false); /* armed for solicited entries: nothing is delayed */
	receives(&r, 1, &list);
	check_eq(events(&r), 1);
	for (int i = 0; i < 3; i++)
		check_eq(receive_as(&r, 1, true, &list), 0); /* 4 to 6 */
	receives(&r, 2, &list);
	check_eq(armed_since(&r, 6), 1);
	check_eq(cq_written(r.cq), 9);
	check_eq(armed_since(&r, 7), 0);
	check_eq(armed_since(&r, 0), 1);
	check_eq(cq_push(r.cq, &(struct cqe){ .opcode = MLX5_CQE_RESP_ERR }), 0);
	check_eq(armed_since(&r, 9), 1);
	check_eq(armed_since(&r, 10), 0);
	cq_run_end(&list);
	close_queue(&r);
}

/* Completions wait for the end of their own turn, not of another one. */
TEST(two_turns_do_not_wait_for_each_other)
{
	struct cq *first = NULL, *second = NULL;
	struct ring r;

	open_queue(&r, CNT, 0);
	receives(&r, 2, &first);
	receives(&r, 1, &second);
	check_eq(cq_written(r.cq), 3);
	receives(&r, 1, &first);
	check_eq(cq_written(r.cq), 3);
	cq_run_end(&second);
	check_eq(cq_written(r.cq), 3);
	cq_run_end(&first);
	check_eq(cq_written(r.cq), 4);
	receives(&r, 2, &second);
	check_eq(cq_written(r.cq), 4);
	cq_run_end(&second);
	check_eq(cq_written(r.cq), 6);
	close_queue(&r);
}

TEST(a_turn_may_complete_on_several_queues)
{
	struct cq *list = NULL;
	struct ring r, s;

	open_queue(&r, CNT, 0);
	open_queue(&s, CNT, 0);
	for (int i = 0; i < 4; i++) {
		receives(&r, 1, &list);
		receives(&s, 1, &list);
	}
	check_eq(cq_written(r.cq) + cq_written(s.cq), 0);
	cq_run_end(&list);
	check_eq(session_at(&r, 0), 4);
	check_eq(session_at(&s, 0), 4);
	close_queue(&s);
	close_queue(&r);
}

TEST(an_overrun_counts_what_is_delayed)
{
	struct ibv_async_event ev;
	struct cq *list = NULL;
	struct ring r;

	open_queue(&r, 8, 0);
	receives(&r, 8, &list);
	check_eq(receive_as(&r, 1, false, &list), EOVERFLOW);
	check_eq(receive_as(&r, 1, false, &list), EOVERFLOW);
	cq_run_end(&list);
	check_eq(async_pop(r.f->ctx, &ev), 0);
	check_eq(ev.event_type, IBV_EVENT_CQ_ERR);
	check_eq(async_pop(r.f->ctx, &ev), EAGAIN);
	check_eq(cq_written(r.cq), 8);
	check_eq(session_at(&r, 0), 8);
	close_queue(&r);
}

TEST(an_ordinary_entry_overruns_behind_what_is_delayed)
{
	struct cq *list = NULL;
	struct ring r;

	open_queue(&r, 8, 0);
	receives(&r, 8, &list);
	check_eq(cq_push(r.cq, &(struct cqe){ .opcode = MLX5_CQE_REQ }), EOVERFLOW);
	check_eq(session_at(&r, 0), 8);
	cq_run_end(&list);
	check_eq(cq_written(r.cq), 8);
	close_queue(&r);
}

/* Whoever ignores overruns may lose entries, but a session never overwrites itself. */
TEST(a_session_is_not_longer_than_its_ring)
{
	struct cq *list = NULL;
	struct ring r;

	open_queue(&r, 4, 0);
	r.cq->ignore_overrun = true;
	receives(&r, 11, &list);
	cq_run_end(&list);
	check_eq(cq_written(r.cq), 11);
	check_eq(session_at(&r, 8), 3);
	close_queue(&r);
}

TEST(a_ring_that_moves_takes_sessions_as_ordinary_entries)
{
	struct mlx5_cqe64 to[32];
	struct cqe_ring ring = { (uint8_t *)to, 32, sizeof(to[0]) };
	struct cq *list = NULL;
	uint32_t dbrec[2] = { 0 };
	struct ring r;
	struct cqe c;

	open_queue(&r, 16, 0);
	cqe_init(to, 32, sizeof(to[0]));
	receives(&r, 9, &list);
	cq_let_go(r.cq);
	receives(&r, 4, &list);
	check_eq(cq_switch(r.cq, &ring, dbrec, 0), 13);
	for (uint32_t i = 0; i < 13; i++) {
		check(cqe_ours(&to[i], i, 32));
		check(!cqe_is_title(&to[i]));
		cqe_read(&to[i], &c);
		check_eq(c.wqe_counter, i);
	}
	receives(&r, 2, &list); /* the turn goes on, in the new ring */
	cq_run_end(&list);
	check(cqe_is_title(&to[13]));
	close_queue(&r);
}

/* A compressed entry has no time: a queue whose entries have it does not compress. */
TEST(entries_with_a_time_are_not_compressed)
{
	struct ring r;

	open_queue(&r, CNT, CQ_STAMPED);
	check(!r.cq->run);
	close_queue(&r);
}

RUN_TESTS(unit_test(entries_of_a_turn_are_there_at_its_end),
	  unit_test(what_cannot_join_ends_a_session), unit_test(an_armed_queue_holds_nothing_back),
	  unit_test(a_late_arm_knows_what_is_solicited_in_sessions),
	  unit_test(two_turns_do_not_wait_for_each_other),
	  unit_test(a_turn_may_complete_on_several_queues),
	  unit_test(an_overrun_counts_what_is_delayed),
	  unit_test(an_ordinary_entry_overruns_behind_what_is_delayed),
	  unit_test(a_session_is_not_longer_than_its_ring),
	  unit_test(a_ring_that_moves_takes_sessions_as_ordinary_entries),
	  unit_test(entries_with_a_time_are_not_compressed))
