// SPDX-License-Identifier: MIT
/* An ACK that waits for the program's reply, beside a real engine thread and by the real clock: it
 * leaves in time, whatever the program does. Whether it waits shows inside the library alone, so
 * this program is linked with that. The runner ends an endless wait. */
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include "engine/acks.h"
#include "engine/backlog.h"
#include "engine/node.h"
#include "engine/progress.h"
#include "engine/turn.h"
#include "engine/wake.h"
#include "test.h"

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
	backlog_forget(&stand->e);
	quiesce_wait(); /* a thread that took it off the list is done with it */
	check_eq(stand->peer.refs, 1);
	sem_destroy(&stand->left);
	free(stand);
}

/* A message has come that the program may reply to. False: its ACK must not wait. */
static bool message(void)
{
	struct eqp *e = &stand->e;
	bool waits;

	quiesce_enter();
	turn_take(e);
	waits = acks_delay(&e->q);
	e->q.ack_due = e->q.rsp.ack_delayed = waits;
	turn_leave(e);
	quiesce_exit();
	return waits;
}

static void poll_once(void)
{
	store_relaxed(&stand->n->poll_seq, load_relaxed(&stand->n->poll_seq) + 1);
	quiesce_enter();
	progress_round(stand->n);
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
			wake_engine(stand->n);
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

RUN_TESTS(unit_test(the_engine_lets_it_go), unit_test(a_program_that_polls_lets_it_go))
