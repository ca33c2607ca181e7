// SPDX-License-Identifier: MIT
/* An ACK that waits for the program's reply, beside a real engine thread: it leaves in time,
 * whatever the program does. What a link is given is counted; the runner ends an endless wait. */
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include "engine/inbound.h"
#include "engine/loop.h"
#include "engine/node.h"
#include "engine/turn.h"
#include "test.h"
#include "util/quiesce.h"

struct stand {
	struct eqp e;
	struct counters counters;
	struct context ctx;
	struct dest peer;
	struct dest_net net;
	struct node *n;
	sem_t left;
};

static struct stand *stand;

static int note_ack(struct dest *d, const struct seg *s, struct waiter *w)
{
	(void)d;
	(void)s;
	(void)w;
	sem_post(&stand->left);
	return 0;
}

static void put_back(struct dest *d)
{
	d->refs--;
}

static void open_stand(void)
{
	static const struct link_ops ops = { .name = "test", .send = note_ack, .put = put_back };
	struct stand *s = aligned_alloc(64, (sizeof(*s) + 63) & ~(size_t)63);

	memset(s, 0, sizeof(*s));
	setenv("SOFTHCA_DEVICES", "mlx5_0=lo", 1);
	check_eq(node_hca("mlx5_0", &s->ctx.hca), 0);
	s->n = node_self();
	s->peer = (struct dest){ .ops = &ops, .refs = 1, .net = &s->net };
	s->e.node = s->n;
	s->e.q.dest = &s->peer;
	s->e.q.qp.ctx = &s->ctx;
	s->e.q.qp.service = &services[SERVICE_RC];
	s->e.q.qp.state = IBV_QPS_RTS;
	s->e.q.deadline = s->e.timer_at = TQP_NEVER;
	s->e.inbox_end = &s->e.inbox;
	spin_init(&s->e.inbox_lock);
	sem_init(&s->left, 0, 0);
	stand = s;
}

static void close_stand(void)
{
	inbound_forget(&stand->e);
	quiesce_wait(); /* whoever had it off the list is done with it */
	check_eq(stand->peer.refs, 1);
	sem_destroy(&stand->left);
	free(stand);
}

/* A message has come that the program may reply to. False: its ACK must not wait. */
static bool message(void)
{
	struct eqp *e = &stand->e;
	bool held;

	quiesce_enter();
	turn_take(e);
	held = inbound_ack_hold(&e->q);
	e->q.ack_due = e->q.rsp.ack_held = held;
	turn_leave(e);
	quiesce_exit();
	return held;
}

static void poll_once(void)
{
	store_relaxed(&stand->n->poll_seq, load_relaxed(&stand->n->poll_seq) + 1);
	quiesce_enter();
	inbound_progress(stand->n);
	quiesce_exit();
}

static bool left(void)
{
	return !sem_trywait(&stand->left);
}

/* A program that polls, takes the message, and makes no call any more. Where the engine sleeps the
 * ACK leaves at once, so this is tried until it waits. */
TEST(the_engine_lets_it_go)
{
	open_stand();
	do {
		while (load_relaxed(&stand->n->asleep) != LOOP_AWAKE) {
			poll_once();
			loop_wake(stand->n);
			sched_yield();
		}
		poll_once();
		check(message());
		poll_once();
	} while (left());
	while (sem_wait(&stand->left))
		;
	close_stand();
}

TEST(a_program_that_polls_lets_it_go)
{
	open_stand();
	check(message());
	while (!left())
		poll_once();
	close_stand();
}

TEST(it_does_not_wait_while_the_program_sleeps)
{
	open_stand();
	check(message());
	check(loop_lead_begin(stand->n));
	quiesce_enter();
	inbound_progress(stand->n);
	quiesce_exit();
	check(left());
	check(!message());
	loop_lead_end(stand->n);
	close_stand();
}

/* Whoever looks before its time puts it on the list again. */
TEST(it_is_not_let_go_too_soon)
{
	struct eqp *e;

	open_stand();
	e = &stand->e;
	e->q.ack_due = e->q.rsp.ack_held = true;
	e->hold_end = UINT64_MAX;
	quiesce_enter();
	turn_note(e, TURN_ACK);
	quiesce_exit();
	check(!left());
	check(e->q.ack_due);
	check(e->ack_listed);
	inbound_forget(e);
	check(left());
	close_stand();
}

TEST(it_leaves_when_the_process_ends)
{
	open_stand();
	check(message());
	inbound_end(stand->n);
	check(left());
	close_stand();
}

RUN_TESTS(unit_test(the_engine_lets_it_go), unit_test(a_program_that_polls_lets_it_go),
	  unit_test(it_does_not_wait_while_the_program_sleeps),
	  unit_test(it_is_not_let_go_too_soon), unit_test(it_leaves_when_the_process_ends))
