// SPDX-License-Identifier: MIT
/* Two ends of a connection in virtual time: messages are lost, doubled and overtaken; each event
 * comes once, few losses prevent no connection, and nothing stays half open when the timers have
 * ended. */
#include "cm/cm_fsm.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "length.h"
#include "test.h"

enum { SEEDS = 2000, FULL = 200000, FLIGHT = 64, EVENTS = 32 };

static const uint64_t ms = 1000000, end = UINT64_C(1000000000000); /* 1000 s */

struct flight {
	uint64_t at; /* 0: free */
	int to;
	struct cm_msg msg;
};

static struct {
	uint64_t rng, now, leave_at;
	unsigned int loss; /* percent */
	struct cm_fsm ends[2]; /* the active one, the passive one */
	unsigned int events[2][EVENTS];
	struct flight flights[FLIGHT];
} s;

static unsigned int below(unsigned int n)
{
	s.rng ^= s.rng << 13;
	s.rng ^= s.rng >> 7;
	s.rng ^= s.rng << 17;
	return (unsigned int)((s.rng >> 20) % n);
}

static void fly(int to, const struct cm_msg *m)
{
	for (int i = 0; i < FLIGHT; i++) {
		if (s.flights[i].at)
			continue;
		s.flights[i] = (struct flight){ s.now + 1 + below(200) * ms, to, *m };
		return;
	}
}

static void done(int who, const struct cm_out *out)
{
	if (out->send && below(100) >= s.loss) {
		fly(!who, &out->msg);
		if (!below(4))
			fly(!who, &out->msg);
	}
	if (out->event != CM_NO_EVENT)
		check_eq(++s.events[who][out->event], 1);
}

static void program(int who, int event)
{
	struct cm_msg rep = { .kind = CM_REP, .qpn = 22 };
	struct cm_out out;

	if (event == RDMA_CM_EVENT_CONNECT_REQUEST)
		check_eq(cm_fsm_accept(&s.ends[who], &rep, s.now, &out), 0);
	else if (event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		check_eq(cm_fsm_establish(&s.ends[who], &out), 0);
	else if (event == RDMA_CM_EVENT_DISCONNECTED)
		check_eq(cm_fsm_disconnect(&s.ends[who], s.now, &out), 0);
	else
		return;
	done(who, &out);
}

static void arrive(struct flight *f)
{
	struct cm_fsm *to = &s.ends[f->to];
	struct cm_out out;

	f->at = 0;
	if (f->to && to->state == CM_IDLE && f->msg.kind == CM_REQ)
		cm_fsm_requested(to, &f->msg, &out);
	else
		cm_fsm_message(to, &f->msg, s.now, &out);
	done(f->to, &out);
	program(f->to, out.event);
}

/* What happens next: a flight, an end's timer, the end of the program's work. */
static bool step(void)
{
	struct flight *first = NULL;
	struct cm_out out;
	uint64_t at = s.leave_at;
	int who = -1;

	for (int i = 0; i < FLIGHT; i++)
		if (s.flights[i].at && s.flights[i].at < at) {
			first = &s.flights[i];
			at = first->at;
		}
	for (int i = 0; i < 2; i++)
		if (s.ends[i].deadline < at) {
			who = i;
			at = s.ends[i].deadline;
		}
	if (at == UINT64_MAX)
		return false;
	s.now = at > s.now ? at : s.now;
	if (who >= 0) {
		cm_fsm_timer(&s.ends[who], s.now, s.rng & 1, &out);
		done(who, &out);
		program(who, out.event);
	} else if (first) {
		arrive(first);
	} else {
		if (s.loss < 20 && s.now > 75000 * ms)
			for (int i = 0; i < 2; i++)
				check_eq(s.ends[i].state, CM_ESTABLISHED);
		s.leave_at = UINT64_MAX;
		for (int i = 0; i < 2; i++) {
			cm_fsm_destroy(&s.ends[i], s.now, &out);
			done(i, &out);
		}
	}
	return true;
}

static void begin(uint64_t seed)
{
	struct cm_msg req = { .kind = CM_REQ, .qpn = 11, .path[0].ack_timeout = 17 };
	struct cm_out out;

	memset(&s, 0, sizeof(s));
	s.rng = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	s.loss = below(60);
	s.leave_at = (1 + below(150000)) * ms;
	cm_fsm_init(&s.ends[0], 1, 100);
	cm_fsm_init(&s.ends[1], 2, 200);
	check_eq(cm_fsm_connect(&s.ends[0], &req, 0, &out), 0);
	done(0, &out);
}

/* A question that meets no listener leaves again, later each time, and the last answer counts. */
static void refused(struct cm_fsm *f, const struct cm_msg *answer, int event, int status)
{
	struct cm_out out;
	uint64_t now = 0;

	for (uint64_t wait = 2 * ms; wait <= 32 * ms; wait *= 2) {
		cm_fsm_message(f, answer, now, &out);
		check(!out.send && out.event == CM_NO_EVENT);
		check_eq(f->deadline, now + wait);
		now = f->deadline;
		cm_fsm_timer(f, now, false, &out);
		check(out.send && out.event == CM_NO_EVENT);
	}
	cm_fsm_message(f, answer, now, &out);
	check_eq(out.event, event);
	check_eq(out.status, status);
	check_eq(f->state, CM_CLOSED);
}

TEST(who_listens_a_moment_later_is_met)
{
	struct cm_msg req = { .kind = CM_REQ, .qpn = 11 }, ask = { .kind = CM_SIDR_REQ };
	struct cm_msg rej = { .kind = CM_REJ, .remote_id = 1, .reason = CM_REJ_SERVICE };
	struct cm_msg none = { .kind = CM_SIDR_REP, .local_id = 1, .reason = CM_SIDR_SERVICE };
	struct cm_fsm f;
	struct cm_out out;

	cm_fsm_init(&f, 1, 100);
	check_eq(cm_fsm_connect(&f, &req, 0, &out), 0);
	refused(&f, &rej, RDMA_CM_EVENT_REJECTED, CM_REJ_SERVICE);
	cm_fsm_init(&f, 1, 100);
	check_eq(cm_fsm_connect(&f, &ask, 0, &out), 0);
	refused(&f, &none, RDMA_CM_EVENT_UNREACHABLE, CM_SIDR_SERVICE);
	cm_fsm_init(&f, 1, 100);
	check_eq(cm_fsm_connect(&f, &req, 0, &out), 0);
	rej.reason = CM_REJ_CONSUMER; /* a listener has said so */
	cm_fsm_message(&f, &rej, 0, &out);
	check_eq(out.event, RDMA_CM_EVENT_REJECTED);
}

TEST(a_request_that_was_delayed_has_all_its_tries_before_it)
{
	struct cm_msg req = { .kind = CM_REQ, .qpn = 11 };
	struct cm_out out;
	struct cm_fsm f;

	cm_fsm_init(&f, 1, 100);
	check_eq(cm_fsm_connect(&f, &req, 0, &out), 0);
	for (int i = 0; i < 5; i++)
		cm_fsm_timer(&f, f.deadline, true, &out);
	cm_fsm_depart(&f, 5000 * ms, &out);
	check(out.send && out.msg.kind == CM_REQ && out.msg.local_id == 1);
	check_eq(f.deadline, 5020 * ms);
	check_eq(f.give_up, (5000 + 16 * 4608) * ms);
}

TEST(a_request_waits_for_the_packet_life_time_of_its_path)
{
	static const struct {
		uint8_t ack_timeout;
		uint64_t wait; /* ms */
	} paths[] = { { 0, 4608 }, { 1, 4098 }, { 9, 4098 }, { 17, 4608 }, { 21, 12288 } };
	struct cm_msg req = { .kind = CM_REQ, .qpn = 11 };
	struct cm_out out;
	struct cm_fsm f;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		req.path[0].ack_timeout = paths[i].ack_timeout;
		cm_fsm_init(&f, 1, 100);
		check_eq(cm_fsm_connect(&f, &req, 0, &out), 0);
		check_eq(f.give_up, 16 * paths[i].wait * ms);
	}
}

TEST(two_ends_of_a_bad_network_end_closed_with_each_event_once)
{
	uint64_t seeds = length_full() ? FULL : SEEDS;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		begin(seed);
		while (step())
			check(s.now < end);
		check(s.ends[0].state == CM_CLOSED);
		check(s.ends[1].state == CM_CLOSED || s.ends[1].state == CM_IDLE);
	}
}

TEST(a_peer_that_repeats_its_mra_does_not_hold_a_request_for_ever)
{
	struct cm_msg mra = {
		.kind = CM_MRA, .local_id = 2, .remote_id = 1, .service_timeout = 24
	};
	struct cm_fsm *f = &s.ends[0];
	struct cm_out out;

	begin(1);
	while (f->state == CM_REQ_SENT && f->deadline < end) {
		cm_fsm_timer(f, f->deadline, true, &out);
		if (f->state == CM_REQ_SENT)
			cm_fsm_message(f, &mra, f->deadline, &out);
	}
	check_eq(f->state, CM_CLOSED);
	check_eq(out.event, RDMA_CM_EVENT_UNREACHABLE);
}

/* An active end that is connected. */
static struct cm_fsm *connected(void)
{
	struct cm_msg rep = { .kind = CM_REP, .local_id = 2, .remote_id = 1, .qpn = 22 };
	struct cm_fsm *f = &s.ends[0];
	struct cm_out out;

	begin(1);
	cm_fsm_message(f, &rep, 0, &out);
	check_eq(cm_fsm_establish(f, &out), 0);
	return f;
}

/* What a host answers that does not know the connection. */
static struct cm_msg unknown(const struct cm_msg *dreq)
{
	return (struct cm_msg){ .kind = CM_DREP,
				.tid = dreq->tid,
				.local_id = dreq->remote_id,
				.remote_id = dreq->local_id };
}

TEST(a_peer_whose_host_says_twice_that_it_has_gone_is_dead)
{
	struct cm_fsm *f = connected();
	struct cm_out out;
	struct cm_msg drep;

	for (int i = 0; i < 2; i++) {
		check_eq(f->state, CM_ESTABLISHED);
		cm_fsm_ask(f, &out);
		check(out.send && out.msg.kind == CM_DREQ && out.msg.qpn == CM_ASK_QPN);
		drep = unknown(&out.msg);
		cm_fsm_message(f, &drep, 0, &out);
	}
	check_eq(f->state, CM_TIMEWAIT);
	check_eq(out.event, RDMA_CM_EVENT_DISCONNECTED);
	check_eq(out.status, 0);
}

TEST(a_peer_that_does_not_answer_is_not_dead)
{
	struct cm_fsm *f = connected();
	struct cm_out out;
	struct cm_msg drep;

	for (int i = 0; i < 10000; i++) { /* one answer of three, never two in a row; copies */
		cm_fsm_ask(f, &out);
		drep = unknown(&out.msg);
		for (int copy = 0; copy < 3 && i % 3 == 0; copy++)
			cm_fsm_message(f, &drep, 0, &out);
		check_eq(f->state, CM_ESTABLISHED);
	}
}

TEST(the_question_whether_a_peer_lives_ends_nothing)
{
	struct cm_fsm *f = connected(), *peer = &s.ends[1];
	struct cm_msg req = { .kind = CM_REQ, .local_id = 1, .qpn = 11 };
	struct cm_msg rep = { .kind = CM_REP, .qpn = 22 };
	struct cm_msg rtu = { .kind = CM_RTU, .local_id = 1, .remote_id = 2 };
	struct cm_msg question;
	struct cm_out out;

	cm_fsm_ask(f, &out);
	question = out.msg;
	cm_fsm_requested(peer, &req, &out);
	check_eq(cm_fsm_accept(peer, &rep, 0, &out), 0);
	for (int i = 0; i < 2; i++) {
		cm_fsm_message(peer, &question, 0, &out);
		check(!out.send && out.event == CM_NO_EVENT);
		cm_fsm_message(peer, &rtu, 0, &out);
		check_eq(peer->state, CM_ESTABLISHED);
	}
}

TEST(only_a_message_without_an_answer_can_meet_no_host)
{
	struct cm_fsm *f = &s.ends[0];
	struct cm_out out;

	begin(1);
	cm_fsm_unreached(f, EHOSTUNREACH, &out);
	check_eq(f->state, CM_CLOSED);
	check_eq(out.event, RDMA_CM_EVENT_UNREACHABLE);
	check_eq(out.status, -EHOSTUNREACH);
	f = connected();
	cm_fsm_unreached(f, EHOSTUNREACH, &out);
	check_eq(f->state, CM_ESTABLISHED);
	check_eq(out.event, CM_NO_EVENT);
}

TEST(a_request_that_comes_again_after_the_end_is_refused)
{
	struct cm_msg req = { .kind = CM_REQ, .local_id = 1, .qpn = 11 };
	struct cm_msg rep = { .kind = CM_REP, .qpn = 22 };
	struct cm_msg rej = {
		.kind = CM_REJ, .local_id = 1, .remote_id = 2, .reason = CM_REJ_CONSUMER
	};
	struct cm_fsm f;
	struct cm_out out;

	cm_fsm_init(&f, 2, 200);
	cm_fsm_requested(&f, &req, &out);
	check_eq(cm_fsm_accept(&f, &rep, 0, &out), 0);
	cm_fsm_message(&f, &rej, 0, &out);
	check_eq(f.state, CM_TIMEWAIT);
	cm_fsm_message(&f, &req, 0, &out);
	check(out.send && out.msg.kind == CM_REJ && out.msg.reason == CM_REJ_STALE);
	check_eq(out.msg.remote_id, 1);
	check_eq(f.state, CM_TIMEWAIT);
}

TEST(only_a_connection_that_was_ended_has_a_timewait_to_tell_of)
{
	struct cm_msg rej = {
		.kind = CM_REJ, .local_id = 2, .remote_id = 1, .reason = CM_REJ_CONSUMER
	};
	struct cm_fsm *f = connected();
	struct cm_out out;

	cm_fsm_message(f, &rej, 0, &out);
	check_eq(out.event, RDMA_CM_EVENT_REJECTED);
	check_eq(f->state, CM_TIMEWAIT);
	cm_fsm_timer(f, f->deadline, true, &out);
	check_eq(f->state, CM_CLOSED);
	check_eq(out.event, CM_NO_EVENT);
	f = connected();
	cm_fsm_death(f, 0, &out);
	check_eq(out.event, RDMA_CM_EVENT_DISCONNECTED);
	cm_fsm_timer(f, f->deadline, true, &out);
	check_eq(out.event, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

/* An id that its program still has answers as its host would for one that is gone. */
TEST(an_end_that_is_over_answers_a_dreq)
{
	struct cm_msg dreq = { .kind = CM_DREQ, .local_id = 2, .remote_id = 1, .qpn = 11 };
	struct cm_fsm *f = connected();
	struct cm_out out;

	cm_fsm_message(f, &dreq, 0, &out);
	check_eq(cm_fsm_disconnect(f, 0, &out), 0);
	cm_fsm_timer(f, f->deadline, true, &out);
	check_eq(f->state, CM_CLOSED);
	cm_fsm_message(f, &dreq, f->deadline, &out);
	check(out.send && out.msg.kind == CM_DREP && out.event == CM_NO_EVENT);
	dreq.qpn = CM_ASK_QPN; /* the peer has not heard of the end, and asks */
	cm_fsm_message(f, &dreq, f->deadline, &out);
	check(out.send && out.msg.kind == CM_DREP && out.event == CM_NO_EVENT);
	dreq.qpn = 12;
	cm_fsm_message(f, &dreq, f->deadline, &out);
	check(!out.send);
}

TEST(a_request_that_was_rejected_is_rejected_again)
{
	struct cm_msg req = { .kind = CM_REQ, .local_id = 1, .qpn = 11 };
	struct cm_msg rej = {
		.kind = CM_REJ, .reason = CM_REJ_CONSUMER, .private_len = 1, .private_data = { 7 }
	};
	struct cm_fsm f;
	struct cm_out out;

	cm_fsm_init(&f, 2, 200);
	cm_fsm_requested(&f, &req, &out);
	check_eq(cm_fsm_reject(&f, &rej, &out), 0);
	rej = out.msg;
	cm_fsm_message(&f, &req, 0, &out);
	check(out.send && out.event == CM_NO_EVENT);
	check_mem(&out.msg, &rej, sizeof(rej));
}

RUN_TESTS(unit_test(who_listens_a_moment_later_is_met),
	  unit_test(a_request_that_was_delayed_has_all_its_tries_before_it),
	  unit_test(a_request_waits_for_the_packet_life_time_of_its_path),
	  unit_test(two_ends_of_a_bad_network_end_closed_with_each_event_once),
	  unit_test(a_peer_that_repeats_its_mra_does_not_hold_a_request_for_ever),
	  unit_test(a_peer_whose_host_says_twice_that_it_has_gone_is_dead),
	  unit_test(a_peer_that_does_not_answer_is_not_dead),
	  unit_test(the_question_whether_a_peer_lives_ends_nothing),
	  unit_test(a_request_that_comes_again_after_the_end_is_refused),
	  unit_test(only_a_message_without_an_answer_can_meet_no_host),
	  unit_test(only_a_connection_that_was_ended_has_a_timewait_to_tell_of),
	  unit_test(an_end_that_is_over_answers_a_dreq),
	  unit_test(a_request_that_was_rejected_is_rejected_again))
