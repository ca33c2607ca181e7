// SPDX-License-Identifier: MIT
/* Which posts wait for those behind them. */
#include "engine/corks.h"
#include "engine/backlog.h"
#include "stand.h"

#define US 1000ULL

static struct eqp *e;
static uint64_t now;

static void open_qp(void)
{
	stand_open();
	e = stand_qp();
	now = 1000 * US;
}

static void close_qp(void)
{
	free(e);
	stand_close();
}

/* A post @us behind the one before. */
static bool post_after(uint64_t us)
{
	now += us * US;
	return corks_wait(&e->q, now);
}

static bool post(void)
{
	return post_after(1);
}

/* @us behind the last post; it takes the QPs that wait. */
static void poll_after(uint64_t us)
{
	struct eqp *next;

	stand->n.poll_seq++;
	now += us * US;
	for (struct eqp *w = corks_take_all(&stand->n); w; w = next)
		next = corks_unlist(w, now);
}

/* A burst of four, and the poll that ends it; how many waited. */
static unsigned int burst(uint64_t us)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < 4; i++)
		n += post();
	poll_after(us);
	return n;
}

TEST(the_first_post_behind_a_poll_leaves_at_once)
{
	open_qp();
	check_eq(burst(1), 0); /* nothing is known of the program yet */
	check_eq(burst(1), 0);
	check_eq(burst(1), 3);
	poll_after(1);
	check(!post());
	check(post());
	poll_after(1);
	check(!post());
	poll_after(1);
	check(!post());
	poll_after(1);
	check(!stand->n.corked);
	close_qp();
}

TEST(a_post_long_behind_the_last_leaves_at_once)
{
	open_qp();
	burst(1);
	burst(1);
	check(!post());
	check(post());
	check(!post_after(100));
	check(post());
	poll_after(1);
	close_qp();
}

TEST(a_program_that_does_not_poll_in_time_is_made_to_wait_ever_less)
{
	unsigned int waited = 0;

	open_qp();
	for (unsigned int i = 0; i < 1000; i++)
		waited += burst(1000) != 0;
	check(waited > 0);
	check(waited < 12);
	for (unsigned int i = 0; i < 2048; i++)
		burst(1);
	check_eq(burst(1), 3); /* it is forgiven */
	close_qp();
}

TEST(a_program_that_never_polls_never_waits)
{
	open_qp();
	for (unsigned int i = 0; i < 100; i++)
		check(!post());
	close_qp();
}

TEST(the_engine_knows_when_what_waits_must_leave)
{
	open_qp();
	burst(1);
	burst(1);
	check_eq(corks_deadline(&stand->n), UINT64_MAX);
	post();
	check(post());
	check_eq(corks_deadline(&stand->n), now + 50 * US);
	check_eq(backlog_deadline(&stand->n), now + 50 * US);
	check_eq(backlog_ends_nap(&stand->n), UINT64_MAX);
	check(backlog_any(&stand->n));
	poll_after(1);
	check_eq(backlog_deadline(&stand->n), UINT64_MAX);
	close_qp();
}

TEST(nothing_waits_while_nobody_would_end_it)
{
	open_qp();
	burst(1);
	burst(1);
	stand->n.asleep = LOOP_ARMED;
	check_eq(burst(1), 0);
	stand->n.asleep = LOOP_AWAKE;
	stand->n.led = 1;
	check_eq(burst(1), 0);
	stand->n.led = 0;
	stand->n.resting = 1;
	check_eq(burst(1), 0);
	stand->n.resting = 0;
	check_eq(burst(1), 3);
	close_qp();
}

TEST(few_QPs_wait_at_once)
{
	struct eqp *qp[CORKS_MOST + 1];

	open_qp();
	for (unsigned int i = 0; i <= CORKS_MOST; i++) {
		qp[i] = e = i ? stand_qp() : e;
		burst(1);
		burst(1);
		burst(1);
	}
	for (unsigned int i = 0; i <= CORKS_MOST; i++) {
		e = qp[i];
		check(!post());
		check_eq(post(), i < CORKS_MOST);
	}
	poll_after(1);
	for (unsigned int i = 1; i <= CORKS_MOST; i++)
		free(qp[i]);
	e = qp[0];
	close_qp();
}

/* The child of a fork() has a node of its own; what waited in the parent is not sent here. */
TEST(what_waits_at_another_node_does_not_count)
{
	struct eqp *qp[CORKS_MOST];
	struct stand *parent;

	stand_open();
	now = 1000 * US;
	for (unsigned int i = 0; i < CORKS_MOST; i++) {
		qp[i] = e = stand_qp();
		burst(1);
		burst(1);
		burst(1);
	}
	for (unsigned int i = 0; i < CORKS_MOST; i++) {
		e = qp[i];
		check(!post());
		check(post());
	}
	parent = stand;
	open_qp();
	burst(1);
	burst(1);
	check_eq(burst(1), 3);
	close_qp();
	stand = parent;
	for (unsigned int i = 0; i < CORKS_MOST; i++)
		free(qp[i]);
	stand_close();
}

RUN_TESTS(unit_test(the_first_post_behind_a_poll_leaves_at_once),
	  unit_test(a_post_long_behind_the_last_leaves_at_once),
	  unit_test(a_program_that_does_not_poll_in_time_is_made_to_wait_ever_less),
	  unit_test(a_program_that_never_polls_never_waits),
	  unit_test(the_engine_knows_when_what_waits_must_leave),
	  unit_test(nothing_waits_while_nobody_would_end_it), unit_test(few_QPs_wait_at_once),
	  unit_test(what_waits_at_another_node_does_not_count))
