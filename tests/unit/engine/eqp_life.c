// SPDX-License-Identifier: MIT
/* A QP that has ended is on no list of its node, whatever its last turns wanted. The turn of
 * another thread, which ends just before the closing one, is played by the link: the QP's
 * destination is put under the closed turn. */
#include "engine/eqp_life.h"
#include "engine/acks.h"
#include "engine/ready.h"
#include "engine/rq_waiters.h"
#include "engine/timers.h"
#include "stand.h"

static struct eqp *e;
static struct srq srq;
static uint32_t record; /* of the SRQ: no receive is posted */

static void put_while_another_lists_it(struct dest *d)
{
	d->refs--;
	ready_put(e);
	rq_waiters_add(e);
	acks_later(&e->q);
	timers_arm(e, 1);
}

static const struct link_ops ops = { .name = "test",
				     .send = stand_take,
				     .cancel = stand_cancel,
				     .put = put_while_another_lists_it };

static void open_qp(void)
{
	stand_open();
	srq = (struct srq){ .ring = { .cnt = 64, .dbrec = &record } };
	e = stand_owing_qp();
	e->q.qp.srq = &srq;
	stand->peer.refs++;
}

static void end_qp(void)
{
	eqp_life_end(e);
	check(!stand->n.rq_waiters);
	check(!stand->n.ready && !load_relaxed(&e->ready_listed));
	check(!stand->n.acks && !load_relaxed(&e->ack_listed));
	check_eq(stand->n.next_timer, UINT64_MAX);
	free(e);
	stand_close();
}

/* The turn in which the ACK that it owes leaves finds that it waits for a receive. */
TEST(a_QP_that_waits_for_a_receive_ends)
{
	open_qp();
	e->q.rnr_waiting = true;
	acks_later(&e->q);
	end_qp();
}

TEST(a_QP_that_another_thread_lists_meanwhile_ends)
{
	open_qp();
	stand->peer.ops = &ops;
	end_qp();
}

RUN_TESTS(unit_test(a_QP_that_waits_for_a_receive_ends),
	  unit_test(a_QP_that_another_thread_lists_meanwhile_ends))
