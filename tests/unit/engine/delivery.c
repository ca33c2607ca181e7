// SPDX-License-Identifier: MIT
/* Inbound segments to QPs: which turn a thread keeps, and what becomes of segments that find it
 * taken or no QP. The QPs are in RESET, where each request is answered by its number alone. */
#include "engine/delivery.h"
#include <errno.h>
#include "engine/qp_table.h"
#include "engine/turn.h"
#include "engine/unanswered.h"
#include "stand.h"

static struct eqp *a, *b;
static uint32_t a_qpn, b_qpn;

static void open_qps(void)
{
	stand_open();
	a = stand_qp();
	b = stand_qp();
	check_eq(qp_table_take(&stand->n, &a_qpn), 0);
	check_eq(qp_table_take(&stand->n, &b_qpn), 0);
	qp_table_set(&stand->n, a_qpn, a);
	qp_table_set(&stand->n, b_qpn, b);
}

static void close_qps(void)
{
	delivery_release();
	free(a);
	free(b);
	stand_close();
}

static void arrive(uint32_t qpn, uint32_t psn)
{
	struct seg s = stand_request(qpn, psn);

	delivery_to_qp(&stand->n, qpn, &s);
}

TEST(a_burst_costs_one_turn)
{
	open_qps();
	arrive(a_qpn, 0);
	check_eq(a->turn, TURN_HELD);
	arrive(a_qpn, 1);
	check_eq(a->turn, TURN_HELD);
	delivery_release();
	check_eq(a->turn, 0);
	check_eq(stand->sent, 2);
	delivery_release(); /* nothing is kept */
	close_qps();
}

TEST(never_two_turns_at_once)
{
	open_qps();
	arrive(a_qpn, 0);
	arrive(b_qpn, 1);
	check_eq(a->turn, 0);
	check_eq(b->turn, TURN_HELD);
	delivery_release();
	check_eq(b->turn, 0);
	close_qps();
}

TEST(a_busy_QP_gets_a_parcel)
{
	open_qps();
	turn_take(a); /* another thread */
	arrive(a_qpn, 0);
	arrive(a_qpn, 1);
	check_eq(stand->sent, 0);
	check_eq(a->inbox_len, 2);
	arrive(b_qpn, 2);
	turn_leave(a);
	check_eq(a->inbox_len, 0);
	check_eq(stand->sent, 3);
	check_eq(stand->psn[0], 2);
	check_eq(stand->psn[1], 0);
	check_eq(stand->psn[2], 1);
	close_qps();
}

/* Another thread drained before, found the turn taken by this one, and left a parcel. */
TEST(no_segment_passes_a_parcel)
{
	struct seg s;
	struct parcel *p;

	open_qps();
	arrive(a_qpn, 0);
	s = stand_request(a_qpn, 1);
	check_eq(parcel_make(&s, true, &p), 0);
	p->next = NULL;
	a->inbox = p;
	a->inbox_end = &p->next;
	a->inbox_len = 1;
	turn_note(a, TURN_INBOX);
	arrive(a_qpn, 2);
	check_eq(stand->sent, 3);
	for (uint32_t i = 0; i < 3; i++)
		check_eq(stand->psn[i], i);
	close_qps();
}

TEST(the_sender_hears_that_there_is_no_such_QP)
{
	open_qps();
	arrive(number_make(STAND_SLOT, 77), 5);
	check_eq(stand->sent, 1);
	check_eq(stand->syndrome[0], SYN_NO_RESPONDER);
	check(!unanswered_any(&stand->n));
	stand->refuse = EAGAIN;
	arrive(number_make(STAND_SLOT + 1, 77), 6); /* nor such a block */
	check(unanswered_any(&stand->n));
	stand->refuse = 0;
	unanswered_tell(&stand->n);
	check_eq(stand->sent, 2);
	check_eq(stand->psn[1], 6);
	close_qps();
}

/* One that does not read its answers. */
TEST(requests_of_a_full_sender_are_kept_up_to_a_bound)
{
	struct parcel *p;
	uint32_t kept = 0;

	open_qps();
	stand->refuse = EAGAIN;
	for (uint32_t i = 0; i < UNANSWERED_MAX + 1000; i++)
		arrive(number_make(STAND_SLOT, 77), i);
	unanswered_tell(&stand->n);
	for (p = stand->n.unanswered; p; p = p->next)
		kept++;
	check_eq(kept, UNANSWERED_MAX);
	check_eq(stand->peer.unanswered, UNANSWERED_MAX);
	while ((p = stand->n.unanswered)) {
		stand->n.unanswered = p->next;
		parcel_free(p);
	}
	close_qps();
}

TEST(a_sender_that_was_told_may_ask_again)
{
	open_qps();
	for (uint32_t i = 0; i < 3; i++) {
		stand->refuse = EAGAIN;
		arrive(number_make(STAND_SLOT, 77), i);
		check_eq(stand->peer.unanswered, 1);
		stand->refuse = 0;
		unanswered_tell(&stand->n);
		check_eq(stand->peer.unanswered, 0);
	}
	close_qps();
}

static bool lacks(uint8_t op)
{
	struct seg s = stand_request(a_qpn, 0);

	s.op = op;
	return delivery_lacks_receive(&stand->n, &s);
}

TEST(a_message_that_would_be_dropped_is_known_before)
{
	uint32_t record = htobe32(5);

	open_qps();
	a->q.qp.rq.ring = (struct rq_ring){ .cnt = 8, .dbrec = &record };
	a->q.qp.rq.head = 5;
	check(!lacks(SVC_UD | OP_SEND_ONLY)); /* in RESET it is dropped for that */
	a->q.qp.state = IBV_QPS_RTR;
	check(lacks(SVC_UD | OP_SEND_ONLY));
	check_eq(a->turn, TURN_HELD);
	check(lacks(SVC_UC | OP_SEND_FIRST) && lacks(SVC_UC | OP_WRITE_ONLY_IMM));
	check(!lacks(SVC_UC | OP_SEND_MIDDLE) && !lacks(SVC_UC | OP_WRITE_ONLY));
	check(!lacks(SVC_RC | OP_SEND_ONLY)); /* gets an RNR NAK */
	record = htobe32(6);
	check(!lacks(SVC_UD | OP_SEND_ONLY));
	record = htobe32(5);
	delivery_release();
	check_eq(a->turn, 0);
	turn_take(a); /* another thread */
	check(!lacks(SVC_UD | OP_SEND_ONLY));
	a->turn = 0;
	a_qpn++;
	check(!lacks(SVC_UD | OP_SEND_ONLY)); /* there is no such QP */
	close_qps();
}

RUN_TESTS(unit_test(a_burst_costs_one_turn), unit_test(never_two_turns_at_once),
	  unit_test(a_busy_QP_gets_a_parcel), unit_test(no_segment_passes_a_parcel),
	  unit_test(the_sender_hears_that_there_is_no_such_QP),
	  unit_test(requests_of_a_full_sender_are_kept_up_to_a_bound),
	  unit_test(a_sender_that_was_told_may_ask_again),
	  unit_test(a_message_that_would_be_dropped_is_known_before))
