// SPDX-License-Identifier: MIT
/* The wheel of a node by a clock of our own: lazy deadlines of QPs. */
#include "engine/timers.h"
#include "stand.h"
#include "util/fork.h"

#define MS 1000000ULL

static struct timers_due due;

/* The QP that is due at @now, alone; NULL: none. */
static struct eqp *take_one(uint64_t now)
{
	struct eqp *e;

	if (!timers_take(&stand->n, now, &due) || !due.qps)
		return NULL;
	e = due.qps;
	check(!timers_next_qp(e));
	return e;
}

TEST(a_later_deadline_is_no_work_until_the_earlier_fires)
{
	struct eqp *e;

	stand_open();
	e = stand_qp();
	timers_arm(e, 100 * MS);
	timers_arm(e, 200 * MS);
	check_eq(e->timer_at, 100 * MS);
	check(!take_one(99 * MS));
	check(take_one(100 * MS) == e);
	check_eq(e->timer_at, TQP_NEVER);
	check_eq(timers_next(&stand->n), UINT64_MAX);
	timers_arm(e, 200 * MS);
	check(!take_one(199 * MS));
	check(take_one(200 * MS) == e);
	free(e);
	stand_close();
}

TEST(an_earlier_deadline_moves_the_timer)
{
	struct eqp *e;

	stand_open();
	e = stand_qp();
	timers_arm(e, 200 * MS);
	timers_arm(e, 100 * MS);
	check(timers_next(&stand->n) <= 100 * MS);
	check(take_one(100 * MS) == e);
	check(!take_one(300 * MS));
	free(e);
	stand_close();
}

TEST(a_dropped_timer_does_not_fire)
{
	struct eqp *e;

	stand_open();
	e = stand_qp();
	timers_arm(e, 100 * MS);
	timers_drop(e);
	check_eq(timers_next(&stand->n), UINT64_MAX);
	check(!take_one(200 * MS));
	timers_arm(e, 300 * MS);
	check(take_one(300 * MS) == e);
	free(e);
	stand_close();
}

TEST(all_that_are_due_come_at_once)
{
	struct eqp *e[3], *next;
	unsigned int n = 0;

	stand_open();
	for (unsigned int i = 0; i < 3; i++) {
		e[i] = stand_qp();
		timers_arm(e[i], (i + 1) * MS);
	}
	check(timers_take(&stand->n, 2 * MS, &due));
	for (struct eqp *q = due.qps; q; q = next, n++) {
		next = timers_next_qp(q);
		check(q == e[0] || q == e[1]);
	}
	check_eq(n, 2);
	check(take_one(3 * MS) == e[2]);
	for (unsigned int i = 0; i < 3; i++)
		free(e[i]);
	stand_close();
}

/* Its deadline passes anew before the thread that found it has come to it. */
TEST(a_QP_is_in_one_list_at_a_time)
{
	struct timers_due second;
	struct eqp *e;

	stand_open();
	e = stand_qp();
	timers_arm(e, MS);
	check(timers_take(&stand->n, MS, &due));
	timers_arm(e, 2 * MS);
	check(timers_take(&stand->n, 2 * MS, &second));
	check(!second.qps);
	check(due.qps == e);
	check(!timers_next_qp(e));
	timers_arm(e, 3 * MS);
	check(take_one(3 * MS) == e);
	free(e);
	stand_close();
}

TEST(a_thread_does_not_wait_for_one_that_runs_the_wheel)
{
	struct eqp *e;

	stand_open();
	e = stand_qp();
	timers_arm(e, MS);
	spin_lock(&stand->n.wheel_lock);
	check(!timers_take(&stand->n, MS, &due));
	spin_unlock(&stand->n.wheel_lock);
	check(take_one(MS) == e);
	free(e);
	stand_close();
}

enum { LOOKS = 2 << 26 }; /* ns: the second slot of 67 ms, the first one behind 100 ms */

/* A look is no deadline: threads that poll see none, and the engine's thread finds it. */
TEST(looks_of_the_watchdog_are_no_work_of_polls)
{
	struct eqp *e;

	stand_open();
	e = stand_qp();
	e->q.watch_at = 100 * MS;
	timers_watch(&e->q);
	check_eq(timers_next(&stand->n), UINT64_MAX);
	check_eq(timers_next_watch(&stand->n), LOOKS); /* of one slot: the only wake until then */
	check(!take_one(200 * MS));
	check(!timers_take_watches(&stand->n, LOOKS - 1));
	check(timers_take_watches(&stand->n, LOOKS) == e);
	check(!timers_next_qp(e));
	check_eq(timers_next_watch(&stand->n), UINT64_MAX);
	e->q.watch_at = 300 * MS;
	timers_watch(&e->q);
	timers_arm(e, 300 * MS);
	timers_drop(e);
	check(!timers_take_watches(&stand->n, 400 * MS));
	check_eq(timers_next_watch(&stand->n), UINT64_MAX);
	free(e);
	stand_close();
}

static unsigned int fired;

static void fire(struct timer *t, uint64_t now)
{
	(void)t;
	check_eq(now, 5 * MS);
	fired++;
}

TEST(other_timers_fire_by_themselves)
{
	struct timer t;

	stand_open();
	timer_init(&t, NULL);
	timers_add(&stand->n, &t, fire, 9 * MS);
	timers_add(&stand->n, &t, fire, 5 * MS); /* moved */
	check(!timers_take(&stand->n, 4 * MS, &due) || !fired);
	check(timers_take(&stand->n, 5 * MS, &due));
	check_eq(fired, 1);
	check(!due.qps);
	check(!due.cqs);
	stand_close();
}

/* Its timer would run on in freed memory. */
TEST(a_CQ_that_ends_takes_its_timer_along_whether_moderated_or_not)
{
	struct cq cq = { .moderate.period = 60 * MS };

	stand_open();
	check_eq(fork_init(), 0);
	stand->n.epoch = fork_epoch();
	node_current = &stand->n;
	timer_init(&cq.timer, NULL);
	timers_of_cqs.drop(&cq); /* it was never started */
	timers_of_cqs.later(&cq, 60 * MS);
	check(timer_running(&cq.timer));
	cq.moderate.period = 0; /* ibv_modify_cq() */
	timers_of_cqs.drop(&cq);
	check(!timer_running(&cq.timer));
	node_current = NULL;
	stand_close();
}

RUN_TESTS(unit_test(a_later_deadline_is_no_work_until_the_earlier_fires),
	  unit_test(an_earlier_deadline_moves_the_timer), unit_test(a_dropped_timer_does_not_fire),
	  unit_test(all_that_are_due_come_at_once), unit_test(a_QP_is_in_one_list_at_a_time),
	  unit_test(a_thread_does_not_wait_for_one_that_runs_the_wheel),
	  unit_test(looks_of_the_watchdog_are_no_work_of_polls),
	  unit_test(other_timers_fire_by_themselves),
	  unit_test(a_CQ_that_ends_takes_its_timer_along_whether_moderated_or_not))
