// SPDX-License-Identifier: MIT
/* What is left for the holder of a QP's turn. The QP is in RESET, where each request is answered by
 * its number alone: what the link is given shows what was worked on, and in which order. */
#include "engine/turn.h"
#include "test.h"
#include "wire/opcode.h"

enum { PARCELS = 5 };

struct stand {
	struct eqp e;
	struct hca hca;
	struct counters counters;
	struct context ctx;
	struct dest peer;
	uint32_t psn[2 * PARCELS];
	unsigned int n;
};

static struct stand *stand;

static int note_answer(struct dest *d, const struct seg *s, struct waiter *w)
{
	(void)d;
	(void)w;
	assert_true(stand->n < 2 * PARCELS);
	stand->psn[stand->n++] = s->psn;
	return 0;
}

static void put_back(struct dest *d)
{
	d->refs--;
}

static void open_stand(void)
{
	static const struct link_ops ops = { .name = "test", .send = note_answer, .put = put_back };
	struct stand *s = aligned_alloc(64, (sizeof(*s) + 63) & ~(size_t)63);

	memset(s, 0, sizeof(*s));
	s->hca.counters = &s->counters;
	s->ctx.hca = &s->hca;
	s->peer = (struct dest){ .ops = &ops, .refs = 1, .same_host = true };
	s->e.q.qp.ctx = &s->ctx;
	s->e.q.qp.service = &services[SERVICE_RC];
	s->e.q.qp.state = IBV_QPS_RESET;
	s->e.q.deadline = s->e.timer_at = TQP_NEVER;
	s->e.inbox_end = &s->e.inbox;
	spin_init(&s->e.inbox_lock);
	stand = s;
}

static void close_stand(void)
{
	check_eq(stand->peer.refs, 1);
	free(stand);
}

static void arrive(uint32_t psn)
{
	struct seg s = { .op = OP_WRITE_ONLY,
			 .flags = SEG_SQPN,
			 .pkey = 0xffff,
			 .psn = psn,
			 .npsn = 1,
			 .from = &stand->peer };
	struct parcel *p;

	check_eq(parcel_make(&s, true, &p), 0);
	inbox_put(&stand->e, p);
	turn_note(&stand->e, TURN_INBOX);
}

static void check_order(unsigned int n)
{
	check_eq(stand->n, n);
	for (unsigned int i = 0; i < n; i++)
		check_eq(stand->psn[i], i);
}

TEST(what_comes_under_anothers_turn_waits_and_keeps_its_order)
{
	open_stand();
	turn_take(&stand->e);
	for (uint32_t i = 0; i < PARCELS; i++)
		arrive(i);
	check_order(0);
	check_eq(load_relaxed(&stand->e.inbox_len), PARCELS);
	turn_leave(&stand->e);
	check_order(PARCELS);
	check_eq(load_relaxed(&stand->e.turn), 0);
	for (uint32_t i = PARCELS; i < 2 * PARCELS; i++)
		arrive(i); /* nobody has the turn */
	check_order(2 * PARCELS);
	close_stand();
}

/* The drain that left the parcel may have been the last to look for ACKs to flush. */
TEST(an_ack_that_is_due_leaves_with_the_turn)
{
	open_stand();
	stand->e.q.dest = &stand->peer;
	stand->e.q.rsp.epsn = 8;
	turn_take(&stand->e);
	arrive(0);
	stand->e.q.ack_due = true; /* as a request would, of a QP in RTR */
	turn_leave(&stand->e);
	check_eq(stand->n, 2);
	check_eq(stand->psn[1], 7);
	check(!stand->e.q.ack_due);
	close_stand();
}

TEST(a_held_turn_is_not_taken_by_trying)
{
	open_stand();
	check(turn_try(&stand->e));
	check(!turn_try(&stand->e));
	arrive(0);
	check_order(0);
	turn_leave(&stand->e);
	check_order(1);
	check(turn_try(&stand->e));
	turn_leave(&stand->e);
	close_stand();
}

TEST(a_closed_turn_tells_who_waits_and_drops_what_comes)
{
	open_stand();
	turn_take(&stand->e);
	arrive(0);
	fetch_and_acq_rel(&stand->e.turn, ~(uint32_t)TURN_HELD); /* handed over, notes and all */
	turn_close(&stand->e);
	check_eq(stand->peer.refs, 1);
	turn_note(&stand->e, TURN_SQ | TURN_TIMER | TURN_ACK);
	check(!turn_try(&stand->e));
	check_order(1);
	close_stand();
}

RUN_TESTS(unit_test(what_comes_under_anothers_turn_waits_and_keeps_its_order),
	  unit_test(an_ack_that_is_due_leaves_with_the_turn),
	  unit_test(a_held_turn_is_not_taken_by_trying),
	  unit_test(a_closed_turn_tells_who_waits_and_drops_what_comes))
