// SPDX-License-Identifier: MIT
/* The two lists of ACKs that have not left. */
#include "engine/acks.h"
#include "stand.h"

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
	  unit_test(nothing_is_delayed_while_the_program_sleeps))
