// SPDX-License-Identifier: MIT
/* QPs that wait for receives of an SRQ: each once, in the order in which they began to wait. */
#include "engine/rq_waiters.h"
#include <endian.h>
#include "stand.h"

enum { QPS = 4 };

static struct srq srqs[2];
static uint32_t records[2]; /* doorbell records, big-endian */
static struct eqp *e[QPS];

static void open_qps(void)
{
	stand_open();
	memset(srqs, 0, sizeof(srqs));
	for (unsigned int i = 0; i < 2; i++) {
		records[i] = 0;
		srqs[i].ring = (struct rq_ring){ .cnt = 64, .dbrec = &records[i] };
	}
	for (unsigned int i = 0; i < QPS; i++) {
		e[i] = stand_qp();
		e[i]->q.qp.srq = &srqs[i % 2];
	}
}

static void close_qps(void)
{
	for (unsigned int i = 0; i < QPS; i++)
		free(e[i]);
	stand_close();
}

TEST(who_waited_longest_comes_first_of_its_own_SRQ)
{
	open_qps();
	for (unsigned int i = 0; i < QPS; i++)
		check(!rq_waiters_add(e[i]));
	check_eq(rq_waiters_count(&stand->n, &srqs[0]), 2);
	check(rq_waiters_pop(&stand->n, &srqs[1]) == e[1]);
	check(rq_waiters_pop(&stand->n, &srqs[0]) == e[0]);
	check(rq_waiters_pop(&stand->n, &srqs[0]) == e[2]);
	check(!rq_waiters_pop(&stand->n, &srqs[0]));
	check_eq(rq_waiters_count(&stand->n, &srqs[1]), 1);
	check(rq_waiters_pop(&stand->n, &srqs[1]) == e[3]);
	check(!stand->n.rq_waiters);
	close_qps();
}

TEST(a_QP_waits_once_and_may_wait_again)
{
	open_qps();
	rq_waiters_add(e[0]);
	rq_waiters_add(e[0]);
	check_eq(rq_waiters_count(&stand->n, &srqs[0]), 1);
	check(rq_waiters_pop(&stand->n, &srqs[0]) == e[0]);
	rq_waiters_add(e[2]);
	rq_waiters_add(e[0]);
	check(rq_waiters_pop(&stand->n, &srqs[0]) == e[2]);
	check(rq_waiters_pop(&stand->n, &srqs[0]) == e[0]);
	close_qps();
}

TEST(a_receive_that_was_posted_meanwhile_is_seen)
{
	open_qps();
	records[0] = htobe32(1);
	check(rq_waiters_add(e[0]));
	check(!rq_waiters_add(e[1]));
	srqs[0].taken = 1;
	check(!rq_waiters_add(e[2]));
	close_qps();
}

/* A QP's own receive queue has one poster, who rings for the QP itself. */
TEST(a_QP_without_an_SRQ_is_not_listed)
{
	uint32_t record = 0;

	open_qps();
	e[0]->q.qp.srq = NULL;
	e[0]->q.qp.rq.ring = (struct rq_ring){ .cnt = 64, .dbrec = &record };
	check(!rq_waiters_add(e[0]));
	check(!stand->n.rq_waiters);
	record = htobe32(3);
	check(rq_waiters_add(e[0]));
	check(!stand->n.rq_waiters);
	close_qps();
}

TEST(a_QP_that_ends_waits_no_longer)
{
	open_qps();
	rq_waiters_add(e[0]);
	rq_waiters_add(e[1]);
	rq_waiters_add(e[2]);
	rq_waiters_del(e[1]);
	rq_waiters_del(e[3]); /* which never waited */
	check(!rq_waiters_pop(&stand->n, &srqs[1]));
	check(rq_waiters_pop(&stand->n, &srqs[0]) == e[0]);
	rq_waiters_del(e[2]);
	check(!stand->n.rq_waiters);
	close_qps();
}

RUN_TESTS(unit_test(who_waited_longest_comes_first_of_its_own_SRQ),
	  unit_test(a_QP_waits_once_and_may_wait_again),
	  unit_test(a_receive_that_was_posted_meanwhile_is_seen),
	  unit_test(a_QP_without_an_SRQ_is_not_listed), unit_test(a_QP_that_ends_waits_no_longer))
