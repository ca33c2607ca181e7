// SPDX-License-Identifier: MIT
/* What is left for the holder of a QP's turn. The QP is in RESET, where each request is answered by
 * its number alone: what the link is given shows what was worked on, and in which order. */
#include "engine/turn.h"
#include "transport/receive.h"
#include "engine/inbox.h"
#include "engine/ready.h"
#include "stand.h"

enum { PARCELS = 5 };

static struct eqp *e;

static void open_qp(void)
{
	stand_open();
	e = stand_qp();
}

static void close_qp(void)
{
	free(e);
	stand_close();
}

static void arrive(uint32_t psn)
{
	struct seg s = stand_request(0, psn);
	struct parcel *p;

	check_eq(parcel_make(&s, true, &p), 0);
	inbox_put(e, p);
	turn_note(e, TURN_INBOX);
}

static void check_order(unsigned int n)
{
	check_eq(stand->sent, n);
	for (unsigned int i = 0; i < n; i++)
		check_eq(stand->psn[i], i);
}

TEST(what_comes_under_anothers_turn_waits_and_keeps_its_order)
{
	open_qp();
	turn_take(e);
	for (uint32_t i = 0; i < PARCELS; i++)
		arrive(i);
	check_order(0);
	check_eq(load_relaxed(&e->inbox_len), PARCELS);
	turn_leave(e);
	check_order(PARCELS);
	check_eq(load_relaxed(&e->turn), 0);
	for (uint32_t i = PARCELS; i < 2 * PARCELS; i++)
		arrive(i); /* nobody has the turn */
	check_order(2 * PARCELS);
	close_qp();
}

/* The drain that left the parcel may have been the last to look for ACKs to flush. */
TEST(an_ack_that_is_due_leaves_with_the_turn)
{
	open_qp();
	e->q.dest = &stand->peer;
	e->q.rsp.epsn = 8;
	turn_take(e);
	arrive(0);
	e->q.ack_due = true; /* as a request would, of a QP in RTR */
	turn_leave(e);
	check_eq(stand->sent, 2);
	check_eq(stand->psn[1], 7);
	check(!e->q.ack_due);
	close_qp();
}

TEST(a_held_turn_is_not_taken_by_trying)
{
	open_qp();
	check(turn_try(e));
	check(!turn_try(e));
	arrive(0);
	check_order(0);
	turn_leave(e);
	check_order(1);
	check(turn_try(e));
	turn_leave(e);
	close_qp();
}

TEST(a_closed_turn_tells_who_waits_and_drops_what_comes)
{
	open_qp();
	turn_take(e);
	arrive(0);
	fetch_and_acq_rel(&e->turn, ~(uint32_t)TURN_HELD); /* handed over, notes and all */
	turn_close(e);
	check_eq(stand->peer.refs, 1);
	turn_note(e, TURN_SQ | TURN_TIMER | TURN_ACK);
	check(!turn_try(e));
	check_order(1);
	close_qp();
}

/* What the transport could not finish in one turn. */
TEST(long_work_goes_on_later)
{
	uint32_t notes = 0;

	open_qp();
	check(turn_try(e));
	e->q.again = true;
	turn_after(e);
	turn_leave(e);
	check(!e->q.again);
	check(ready_take_all(&stand->n) == e);
	check(!ready_unlist(e, &notes));
	check_eq(notes, TURN_RESUME);
	close_qp();
}

TEST(a_QP_is_ready_once_and_keeps_its_reason)
{
	uint32_t notes = 0;

	open_qp();
	ready_put(e);
	e->q.again = true;
	turn_after(e); /* listed for its notes already */
	check(ready_take_all(&stand->n) == e);
	check(!ready_take_all(&stand->n));
	check(!ready_unlist(e, &notes));
	check_eq(notes, TURN_RESUME);
	ready_put(e);
	check(ready_take_all(&stand->n) == e);
	ready_unlist(e, &notes);
	check_eq(notes, 0);
	close_qp();
}

TEST(an_ACK_waits_for_a_bounded_number_of_segments)
{
	unsigned int n = 0;

	open_qp();
	e->q.qp.state = IBV_QPS_RTS;
	e->q.dest = &stand->peer;
	while (!stand->sent && n++ < 1000) {
		e->q.ack_due = true;
		turn_after(e);
	}
	check_eq(n, 32);
	check_eq(e->acks_owed, 0);
	e->q.ack_due = true;
	turn_after(e);
	e->q.ack_due = false; /* it has left with another segment */
	turn_after(e);
	check_eq(e->acks_owed, 0);
	check_eq(stand->sent, 1);
	close_qp();
}

TEST(the_deadline_of_the_transport_is_armed)
{
	open_qp();
	e->q.deadline = 1000000;
	turn_after(e);
	check_eq(e->timer_at, 1000000);
	check(timer_running(&e->timer));
	wheel_del(&stand->n.wheel, &e->timer);
	close_qp();
}

static unsigned int flushes;

static void count_flush(struct dest *d)
{
	(void)d;
	flushes++;
}

TEST(answers_leave_when_the_turn_ends)
{
	static const struct link_ops ops = { .name = "test", .flush = count_flush };
	struct dest d = { .ops = &ops, .refs = 1 };

	open_qp();
	flushes = 0;
	e->q.dest = &d;
	turn_take(e);
	e->q.unsettled = true;
	check_eq(flushes, 0);
	turn_leave(e);
	check_eq(flushes, 1);
	close_qp();
}

/* Of a CQ in memory alone: what is delayed is there when the turn ends, or other work begins. */
TEST(completions_are_not_delayed_beyond_the_turn)
{
	static struct cq_run run;
	static struct mlx5_cqe64 entries[8];
	uint32_t dbrec[2] = { 0 };
	struct cq cq = { .run = &run, .buf = (uint8_t *)entries, .cnt = 8, .cqe_size = 64 };
	struct cqe c = { .opcode = MLX5_CQE_RESP_SEND };

	open_qp();
	spin_init(&cq.lock);
	cq.dbrec = dbrec;
	for (int way = 0; way < 3; way++) {
		uint32_t before = cq.pi;

		turn_take(e);
		check_eq(receive_push(&e->q, &cq, &c), 0);
		c.wqe_counter++;
		check_eq(cq.pi, before);
		if (way == 1)
			turn_note(e, TURN_ACK); /* the end of the turn is a slow one */
		if (way == 2)
			tqp_doorbell(&e->q, 0);
		turn_leave(e);
		check_eq(cq.pi, before + 1);
		check(!e->q.delaying);
		check(!e->q.unsettled);
	}
	close_qp();
}

RUN_TESTS(unit_test(what_comes_under_anothers_turn_waits_and_keeps_its_order),
	  unit_test(an_ack_that_is_due_leaves_with_the_turn),
	  unit_test(a_held_turn_is_not_taken_by_trying),
	  unit_test(a_closed_turn_tells_who_waits_and_drops_what_comes),
	  unit_test(long_work_goes_on_later), unit_test(a_QP_is_ready_once_and_keeps_its_reason),
	  unit_test(an_ACK_waits_for_a_bounded_number_of_segments),
	  unit_test(the_deadline_of_the_transport_is_armed),
	  unit_test(answers_leave_when_the_turn_ends),
	  unit_test(completions_are_not_delayed_beyond_the_turn))
