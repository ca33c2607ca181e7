// SPDX-License-Identifier: MIT
/* The two lists of ACKs that have not left. */
#include "engine/acks.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include "engine/backlog.h"
#include "engine/turn.h"
#include "stand.h"
#include "util/quiesce.h"

#define MS 1000000ULL

static struct eqp *a, *b;

static void open_qps(void)
{
	stand_open();
	a = stand_owing_qp();
	b = stand_owing_qp();
}

static void close_qps(void)
{
	free(a);
	free(b);
	stand_close();
}

TEST(a_QP_is_listed_once_until_it_is_taken_off)
{
	struct eqp *first;

	open_qps();
	acks_later(&a->q);
	acks_later(&b->q);
	acks_later(&a->q);
	first = acks_take_all(&stand->n.acks);
	check(first == b);
	acks_later(&b->q); /* not yet off the list */
	check(!stand->n.acks);
	check(acks_unlist(b, false) == a);
	check(!acks_unlist(a, false));
	acks_later(&b->q);
	check(acks_take_all(&stand->n.acks) == b);
	check(!acks_unlist(b, false));
	close_qps();
}

TEST(the_first_delayed_ACK_sets_the_time)
{
	open_qps();
	check_eq(acks_deadline(&stand->n), UINT64_MAX);
	acks_delay_until(a, 5 * MS);
	acks_delay_until(b, 6 * MS);
	check_eq(acks_deadline(&stand->n), 5 * MS);
	check(acks_take_all(&stand->n.delayed) == b);
	check_eq(acks_deadline(&stand->n), UINT64_MAX);
	close_qps();
}

TEST(an_ACK_waits_until_its_time_and_no_longer)
{
	open_qps();
	acks_delay_until(a, 5 * MS);
	acks_take_all(&stand->n.delayed);
	check(!acks_unlist(a, false));
	check(acks_wait_on(a, 5 * MS - 1));
	check(acks_take_all(&stand->n.delayed) == a); /* listed again */
	check(!acks_unlist(a, false));
	check(!acks_wait_on(a, 5 * MS));
	check(!stand->n.delayed);
	close_qps();
}

TEST(at_once_ends_the_delay)
{
	open_qps();
	acks_delay_until(a, UINT64_MAX);
	acks_take_all(&stand->n.delayed);
	check(!acks_unlist(a, true));
	check(!acks_wait_on(a, 0));
	close_qps();
}

static struct quiesce_slot *of_the_ending;
static sem_t taken;
static int ended;

/* Takes the ACKs, and is overtaken by exit() before they leave. */
static void *engine_thread(void *arg)
{
	uint64_t seen = load_acquire(&of_the_ending->seq);
	struct eqp *e;

	(void)arg;
	quiesce_enter();
	e = acks_take_all(&stand->n.acks);
	sem_post(&taken);
	while (load_acquire(&of_the_ending->seq) < seen + 2)
		sched_yield();
	for (unsigned int i = 0; i < 10000 && !load_acquire(&ended); i++)
		sched_yield();
	acks_unlist(e, false);
	turn_note(e, TURN_ACK);
	quiesce_exit();
	return NULL;
}

TEST(a_process_does_not_end_before_ACKs_in_the_engine_threads_hands_have_left)
{
	pthread_t t;

	open_qps();
	sem_init(&taken, 0, 0);
	quiesce_enter(); /* makes this thread's slot */
	quiesce_exit();
	of_the_ending = quiesce_self;
	acks_later(&a->q);
	check_eq(pthread_create(&t, NULL, engine_thread, NULL), 0);
	sem_wait(&taken);
	backlog_end(&stand->n);
	check_eq(stand->sent, 1);
	store_release(&ended, 1);
	check_eq(pthread_join(t, NULL), 0);
	sem_destroy(&taken);
	close_qps();
}

TEST(nothing_is_delayed_while_the_program_sleeps)
{
	open_qps();
	stand->n.led = 1;
	check(!acks_delay(&a->q));
	check(!stand->n.delayed);
	close_qps();
}

RUN_TESTS(unit_test(a_QP_is_listed_once_until_it_is_taken_off),
	  unit_test(the_first_delayed_ACK_sets_the_time),
	  unit_test(an_ACK_waits_until_its_time_and_no_longer), unit_test(at_once_ends_the_delay),
	  unit_test(a_process_does_not_end_before_ACKs_in_the_engine_threads_hands_have_left),
	  unit_test(nothing_is_delayed_while_the_program_sleeps))
