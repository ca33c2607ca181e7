// SPDX-License-Identifier: MIT
/* One round of work: which ACKs leave by it, and what else is due. */
#include "engine/progress.h"
#include <errno.h>
#include "engine/acks.h"
#include "engine/backlog.h"
#include "engine/leader.h"
#include "engine/ready.h"
#include "engine/timers.h"
#include "engine/turn.h"
#include "engine/unanswered.h"
#include "stand.h"
#include "util/clock.h"

#define SECOND UINT64_C(1000000000)

static uint64_t now = 100 * SECOND; /* instead of the real clock */

uint64_t clock_now(void)
{
	return now;
}

uint64_t clock_wall_offset(void)
{
	return 0;
}

static struct eqp *e;
static unsigned int delivered;

static void count(void *arg, const struct seg *s)
{
	(void)arg;
	(void)s;
	delivered++;
}

static void open_qp(void)
{
	stand_open();
	stand->host.cfg.deliver = count;
	delivered = 0;
	e = stand_owing_qp();
}

static void close_qp(void)
{
	free(e);
	stand_close();
}

/* A segment of this process to itself waits. */
static void send_own(void)
{
	struct seg s = stand_request(number_make(STAND_SLOT, 9), 1);

	check_eq(stand->host.own.d.ops->send(&stand->host.own.d, &s, NULL), 0);
}

TEST(ACKs_leave_when_a_drain_finds_nothing)
{
	open_qp();
	acks_later(&e->q);
	send_own();
	check_eq(progress_round(&stand->n), 1);
	check_eq(delivered, 1);
	check_eq(stand->sent, 0);
	check_eq(progress_round(&stand->n), 0);
	check_eq(stand->sent, 1);
	check(!e->q.ack_due);
	close_qp();
}

TEST(ACKs_leave_at_once_while_the_engine_sleeps)
{
	open_qp();
	acks_later(&e->q);
	send_own();
	stand->n.asleep = LOOP_ARMED;
	check_eq(progress_round(&stand->n), 1);
	check_eq(stand->sent, 1);
	close_qp();
}

TEST(but_a_leader_drains_again)
{
	open_qp();
	check(leader_begin(&stand->n));
	acks_later(&e->q);
	send_own();
	stand->n.asleep = LOOP_NAPPING;
	check_eq(progress_round(&stand->n), 1);
	check_eq(stand->sent, 0);
	leader_end(&stand->n);
	progress_round(&stand->n);
	check_eq(stand->sent, 1);
	close_qp();
}

static void delay(uint64_t end)
{
	e->q.rsp.ack_delayed = true;
	acks_delay_until(e, end);
}

TEST(a_delayed_ACK_waits_for_its_time)
{
	open_qp();
	delay(UINT64_MAX);
	progress_round(&stand->n);
	check_eq(stand->sent, 0);
	check(stand->n.delayed == e);
	backlog_delayed_acks(&stand->n, false); /* too soon: it is listed again */
	check_eq(stand->sent, 0);
	check(stand->n.delayed == e);
	e->ack_delay_end = stand->n.delay_end = 1;
	progress_round(&stand->n);
	check_eq(stand->sent, 1);
	check(!stand->n.delayed);
	close_qp();
}

TEST(it_does_not_wait_while_the_program_or_the_engine_sleeps)
{
	open_qp();
	delay(UINT64_MAX);
	stand->n.led = 1;
	progress_round(&stand->n);
	check_eq(stand->sent, 1);
	stand->n.led = 0;
	e->q.ack_due = true;
	delay(UINT64_MAX);
	stand->n.asleep = LOOP_ARMED;
	progress_round(&stand->n);
	check_eq(stand->sent, 2);
	close_qp();
}

TEST(all_ACKs_leave_when_the_process_ends)
{
	struct eqp *other;

	open_qp();
	other = stand_owing_qp();
	delay(UINT64_MAX);
	acks_later(&other->q);
	backlog_end(&stand->n);
	check_eq(stand->sent, 2);
	check(!backlog_any(&stand->n));
	free(other);
	close_qp();
}

TEST(a_QP_that_ends_is_on_no_list)
{
	struct eqp *other;

	open_qp();
	other = stand_owing_qp();
	acks_later(&other->q);
	delay(UINT64_MAX);
	ready_put(e);
	backlog_forget(e);
	check(!e->ack_listed);
	check(!e->ready_listed);
	check(!stand->n.delayed);
	check(!stand->n.ready);
	check_eq(stand->sent, 2); /* the other's too */
	check_eq(e->acks_owed, 0); /* at once, not after many rounds */
	check_eq(e->ack_delay_end, 0);
	free(other);
	close_qp();
}

TEST(QPs_that_are_ready_are_gone_on_with)
{
	open_qp();
	check(turn_try(e));
	e->q.again = true;
	turn_after(e);
	turn_leave(e);
	check(stand->n.ready == e);
	check(backlog_any(&stand->n));
	progress_round(&stand->n);
	check(!stand->n.ready);
	check(!e->ready_listed);
	check(!e->go_on);
	close_qp();
}

TEST(a_deadline_that_has_passed_is_worked_off)
{
	open_qp();
	e->q.qp.state = IBV_QPS_RESET;
	e->q.ack_due = false;
	timers_arm(e, 1);
	progress_round(&stand->n);
	check_eq(e->timer_at, TQP_NEVER);
	check(!e->timer_queued);
	check_eq(stand->n.next_timer, UINT64_MAX);
	close_qp();
}

static bool others_have_none;
static unsigned int caught_up;

static unsigned int drain_nothing(struct link *l, unsigned int budget, bool all)
{
	(void)l;
	(void)budget;
	(void)all;
	return 0;
}

static bool catch_up(struct link *l)
{
	(void)l;
	caught_up++;
	return others_have_none;
}

/* Does a deadline that passed @ns ago get worked off? */
static bool worked_off(uint64_t ns)
{
	timers_arm(e, now - ns);
	progress_round(&stand->n);
	return e->timer_at == TQP_NEVER;
}

TEST(a_deadline_waits_for_packets_that_are_in_a_threads_hands)
{
	static const struct link_net_ops ops = { .catch_up = catch_up };
	struct link net = { .name = "net", .drain = drain_nothing, .net = &ops };

	open_qp();
	e->q.qp.state = IBV_QPS_RESET;
	e->q.ack_due = false;
	stand->n.link[1].link = &net;
	stand->n.networks = 1;
	wheel_init(&stand->n.wheel, now);
	others_have_none = false;
	caught_up = 0;
	check(!worked_off(0));
	check_eq(caught_up, 1);
	others_have_none = true;
	check(worked_off(0));
	others_have_none = false;
	check(worked_off(SECOND)); /* but not for ever */
	check_eq(caught_up, 3);
	close_qp();
}

/* Its sender is on this host and has no timer of its own. */
TEST(a_sender_is_told_when_its_link_has_room)
{
	struct seg s;

	open_qp();
	s = stand_request(number_make(STAND_SLOT, 9), 7);
	stand->refuse = EAGAIN;
	unanswered_put(&stand->n, &s);
	check_eq(stand->peer.refs, 2);
	progress_round(&stand->n);
	check(unanswered_any(&stand->n));
	stand->refuse = 0;
	progress_round(&stand->n);
	check(!unanswered_any(&stand->n));
	check_eq(stand->sent, 1);
	check_eq(stand->syndrome[0], SYN_NO_RESPONDER);
	check_eq(stand->psn[0], 7);
	close_qp();
}

TEST(own_segments_are_delivered_behind_a_turn)
{
	open_qp();
	progress_own(&stand->n);
	check_eq(delivered, 0);
	send_own();
	progress_own(&stand->n);
	check_eq(delivered, 1);
	close_qp();
}

RUN_TESTS(unit_test(ACKs_leave_when_a_drain_finds_nothing),
	  unit_test(ACKs_leave_at_once_while_the_engine_sleeps),
	  unit_test(but_a_leader_drains_again), unit_test(a_delayed_ACK_waits_for_its_time),
	  unit_test(it_does_not_wait_while_the_program_or_the_engine_sleeps),
	  unit_test(all_ACKs_leave_when_the_process_ends), unit_test(a_QP_that_ends_is_on_no_list),
	  unit_test(QPs_that_are_ready_are_gone_on_with),
	  unit_test(a_deadline_that_has_passed_is_worked_off),
	  unit_test(a_deadline_waits_for_packets_that_are_in_a_threads_hands),
	  unit_test(a_sender_is_told_when_its_link_has_room),
	  unit_test(own_segments_are_delivered_behind_a_turn))
