// SPDX-License-Identifier: MIT
/* The shared turn of a target QP, of a domain that has no file: every other word is a dead
 * member's. */
#include "xrc/xrc_turn.h"
#include "unit/engine/stand.h"

enum { MINE = 0x10001, OTHER = 0x10002, INDEX = 5, QPN = 0x4005 };

static struct xrc_domain *domain;
static struct xrc_target *target;
static struct xrc_shared *shared;

static void open_target(void)
{
	stand_open();
	domain = calloc(1, sizeof(*domain));
	domain->anonymous = true;
	domain->word = MINE;
	domain->page = calloc(1, xrc_page_bytes());
	target = aligned_alloc(64, (sizeof(*target) + 63) & ~(size_t)63);
	memset(target, 0, sizeof(*target));
	target->domain = domain;
	target->index = INDEX;
	target->e.q.qp.ctx = &stand->ctx;
	target->e.q.qp.service = &services[SERVICE_XRC_RECV];
	shared = xrc_turn_shared(target);
	xrc_page_begin(shared, QPN);
	target->gen = shared->gen;
	target->moves = shared->moves;
	shared->last = MINE;
}

static void close_target(void)
{
	free(target);
	free(domain->page);
	free(domain);
	stand_close();
}

TEST(the_word_says_who_has_it)
{
	open_target();
	check(shared == &domain->page->target[INDEX]);
	check(xrc_turn_begin(target));
	check(target->inside);
	check_eq(shared->turn, MINE);
	xrc_turn_end(target);
	check(!target->inside);
	check_eq(shared->turn, 0);
	check_eq(shared->moves, 1);
	close_target();
}

TEST(a_member_that_works_on_it_is_waited_for_in_vain)
{
	open_target();
	shared->turn = MINE; /* another thread of this process, which lives */
	check(!xrc_turn_begin(target));
	check(!target->inside);
	check_eq(shared->turn, MINE);
	close_target();
}

TEST(the_turn_of_a_dead_member_is_taken_over_and_the_QP_is_in_ERR)
{
	open_target();
	shared->state.state = IBV_QPS_RTR;
	shared->turn = OTHER;
	check(xrc_turn_begin(target));
	check(target->inside);
	check_eq(shared->turn, MINE);
	check_eq(shared->died, OTHER);
	check_eq(shared->state.state, IBV_QPS_ERR);
	check_eq(shared->moves, 2);
	check(target->e.q.cause); /* a reason is recorded */
	xrc_turn_end(target);
	close_target();
}

TEST(a_member_that_worked_last_has_nothing_to_catch_up)
{
	open_target();
	shared->state.state = 99; /* not looked at */
	check_eq(xrc_turn_catch_up(target, 0), 0);
	close_target();
}

TEST(what_another_member_has_left_is_loaded_and_not_believed)
{
	open_target();
	shared->last = OTHER;
	shared->state.state = 99;
	shared->state.epsn = 0xff000007;
	check_eq(xrc_turn_catch_up(target, 0), 0);
	check_eq(shared->last, MINE);
	check_eq(target->e.q.qp.state, IBV_QPS_ERR);
	check_eq(target->e.q.rsp.epsn, 7);
	check_eq(target->e.q.qp.qpn, QPN);
	close_target();
}

TEST(a_modify_takes_the_way_back_along)
{
	open_target();
	target->e.q.dest = &stand->peer;
	fetch_add_relaxed(&stand->peer.refs, 1);
	shared->moves++; /* by another member */
	check_eq(xrc_turn_catch_up(target, 0), 0);
	check(!target->e.q.dest);
	check_eq(target->moves, shared->moves);
	close_target();
}

static unsigned int flushes;

static void flush(struct dest *d)
{
	check(d == &stand->peer);
	flushes++;
}

TEST(answers_that_wait_leave_before_their_way_is_taken_along)
{
	struct link_ops ops;

	open_target();
	ops = *stand->peer.ops;
	ops.flush = flush;
	stand->peer.ops = &ops;
	target->e.q.dest = &stand->peer;
	target->e.q.unsettled = true;
	fetch_add_relaxed(&stand->peer.refs, 1);
	shared->moves++; /* by another member */
	check_eq(xrc_turn_catch_up(target, 0), 0);
	check(!target->e.q.dest);
	check_eq(flushes, 1);
	tqp_settle(&target->e.q); /* nothing waits any more */
	check_eq(flushes, 1);
	close_target();
}

RUN_TESTS(unit_test(the_word_says_who_has_it),
	  unit_test(a_member_that_works_on_it_is_waited_for_in_vain),
	  unit_test(the_turn_of_a_dead_member_is_taken_over_and_the_QP_is_in_ERR),
	  unit_test(a_member_that_worked_last_has_nothing_to_catch_up),
	  unit_test(what_another_member_has_left_is_loaded_and_not_believed),
	  unit_test(a_modify_takes_the_way_back_along),
	  unit_test(answers_that_wait_leave_before_their_way_is_taken_along))
