// SPDX-License-Identifier: MIT
/* Two hosts in virtual time. Programs connect, ask for UD queue pairs, accept, reject, give up and
 * disconnect when they like, requests wait for their turn, programs are killed and started anew,
 * and the network loses, doubles and delays. Each end hears of each event once and of one end
 * alone, no end stays connected to one that is gone, and all are closed when the timers have
 * ended. The seed of a failure stands in its message. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cm/cm_fsm.h"
#include "length.h"
#include "test.h"

enum { SEEDS = 2000, FULL = 200000, ENDS = 16, FLIGHT = 512, EVENTS = 32, CALLS = 3 };

static const uint64_t ms = 1000000, never = UINT64_MAX;
static const uint64_t settled = UINT64_C(200000000000); /* ns: no request takes longer */
static const uint64_t noticed = UINT64_C(60000000000); /* a death, even if every third is lost */
static const uint64_t over = UINT64_C(1000000000000);

struct end {
	bool used, gone, held, muted;
	struct cm_fsm fsm;
	uint64_t act_at, ask_at; /* never: not */
	int event; /* that the program acts upon; CM_NO_EVENT: it leaves its queue */
	unsigned int events[EVENTS];
};

struct host {
	uint64_t guid; /* of the process; 0: there is none */
	uint32_t next_id;
	struct end ends[ENDS];
};

struct flight {
	uint64_t at; /* 0: free */
	int to;
	struct cm_msg msg;
};

static struct {
	uint64_t seed, rng, now, leave_at, kill_at, calm_since;
	int victim;
	bool killed;
	unsigned int loss, copies, moody, calls; /* the first three: percent */
	struct host hosts[2];
	struct flight flights[FLIGHT];
} s;

static unsigned int below(unsigned int n)
{
	s.rng ^= s.rng << 13;
	s.rng ^= s.rng >> 7;
	s.rng ^= s.rng << 17;
	return (unsigned int)((s.rng >> 20) % n);
}

static bool chance(unsigned int percent)
{
	return below(100) < percent;
}

static void must(bool so, const char *what)
{
	if (!so)
		print_message("seed %llu at %llu ms: %s\n", (unsigned long long)s.seed,
			      (unsigned long long)(s.now / ms), what);
	check(so);
}

/* --- the network --- */

static void fly(int to, const struct cm_msg *m)
{
	for (int i = 0; i < FLIGHT; i++) {
		if (s.flights[i].at)
			continue;
		s.flights[i] = (struct flight){ s.now + 1 + below(200) * ms, to, *m };
		return;
	}
}

static void leaves(int from, const struct cm_msg *m)
{
	if (chance(s.loss))
		return;
	fly(!from, m);
	if (chance(s.copies))
		fly(!from, m);
}

/* --- ends --- */

static void act_later(struct end *e, int event)
{
	static const unsigned int waits[] = { 1, 10, 3000 };

	e->event = event;
	e->act_at = s.now + 1 + below(waits[below(3)]) * ms;
}

static struct end *new_end(struct host *h)
{
	for (int i = 0; i < ENDS; i++) {
		struct end *e = &h->ends[i];

		if (e->used)
			continue;
		*e = (struct end){ .used = true, .act_at = never, .ask_at = never };
		cm_fsm_init(&e->fsm, ++h->next_id, h->guid);
		return e;
	}
	return NULL;
}

/* It hears of one end alone, and of nothing but its TIMEWAIT behind that. */
static void hears(struct end *e, int event, int status)
{
	static const int last[] = { RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE,
				    RDMA_CM_EVENT_DISCONNECTED };
	unsigned int ends = 0;

	for (int i = 0; i < 3; i++)
		ends += e->events[last[i]];
	must(!e->events[event], "an event comes twice");
	must(!ends || event == RDMA_CM_EVENT_TIMEWAIT_EXIT, "an event follows the end");
	must(event != RDMA_CM_EVENT_TIMEWAIT_EXIT || e->events[RDMA_CM_EVENT_DISCONNECTED],
	     "TIMEWAIT of what was not connected");
	must(event != RDMA_CM_EVENT_DISCONNECTED || !status || s.loss > 30,
	     "a DREQ without an answer");
	must(status != -ETIMEDOUT || !e->fsm.active || e->fsm.delayed || s.killed || s.loss > 30,
	     "a request without an answer");
	e->events[event]++;
	act_later(e, event);
}

static void done(int host, struct end *e, const struct cm_out *out)
{
	if (out->send && !e->held)
		leaves(host, &out->msg);
	if (out->event != CM_NO_EVENT && !e->gone && !e->muted)
		hears(e, out->event, out->status);
	if (e->fsm.state == CM_ESTABLISHED && e->ask_at == never)
		e->ask_at = s.now + 2000 * ms;
	if (e->gone && e->fsm.state == CM_CLOSED)
		e->used = false;
}

static void give_up(int host, struct end *e)
{
	struct cm_out out;

	if (e->gone)
		return;
	e->gone = true;
	e->held = false; /* what has not left never will */
	e->act_at = never;
	cm_fsm_destroy(&e->fsm, s.now, &out);
	done(host, e, &out);
}

/* --- programs --- */

static void connects(int host)
{
	struct cm_msg req = { .kind = below(3) ? CM_REQ : CM_SIDR_REQ, .qpn = 11 };
	struct end *e = s.hosts[host].guid ? new_end(&s.hosts[host]) : NULL;
	struct cm_out out;

	if (!e)
		return;
	req.path[0].ack_timeout = 17;
	check_eq(cm_fsm_connect(&e->fsm, &req, s.now, &out), 0);
	e->held = chance(30);
	if (e->held)
		act_later(e, CM_NO_EVENT);
	done(host, e, &out);
}

static void accepts(struct end *e, struct cm_out *out)
{
	struct cm_msg rep = { .kind = e->fsm.udp ? CM_SIDR_REP : CM_REP, .qpn = 22 };

	e->muted = false;
	out->send = false;
	out->event = CM_NO_EVENT;
	cm_fsm_accept(&e->fsm, &rep, s.now, out);
}

static void rejects(struct end *e, struct cm_out *out)
{
	struct cm_msg rej = { .kind = e->fsm.udp ? CM_SIDR_REP : CM_REJ,
			      .reason = e->fsm.udp ? 2 : CM_REJ_CONSUMER };

	cm_fsm_reject(&e->fsm, &rej, out);
}

static void acts(int host, struct end *e)
{
	struct cm_out out = { .event = CM_NO_EVENT };

	e->act_at = never;
	if (e->event != CM_NO_EVENT && chance(s.moody)) {
		give_up(host, e);
		return;
	}
	if (e->event == CM_NO_EVENT) {
		e->held = false;
		cm_fsm_depart(&e->fsm, s.now, &out);
	} else if (e->event <= RDMA_CM_EVENT_CONNECT_RESPONSE && chance(s.moody)) {
		rejects(e, &out);
	} else if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		accepts(e, &out);
	} else if (e->event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		cm_fsm_establish(&e->fsm, &out);
	} else if (e->event == RDMA_CM_EVENT_DISCONNECTED || chance(s.moody)) {
		cm_fsm_disconnect(&e->fsm, s.now, &out);
	}
	done(host, e, &out);
}

static void asks(int host, struct end *e)
{
	struct cm_out out;

	e->ask_at = e->fsm.state == CM_ESTABLISHED ? s.now + 2000 * ms : never;
	cm_fsm_ask(&e->fsm, &out);
	done(host, e, &out);
}

/* --- messages --- */

static bool is_of(const struct end *e, const struct cm_msg *m)
{
	const struct cm_fsm *f = &e->fsm;

	if (!e->used)
		return false;
	if (m->kind == CM_REQ || m->kind == CM_SIDR_REQ)
		return !f->active && f->udp == (m->kind == CM_SIDR_REQ) &&
		       f->remote_id == m->local_id && (f->udp || f->remote_guid == m->ca_guid);
	if (m->kind == CM_SIDR_REP)
		return f->active && f->local_id == m->local_id;
	if (m->kind == CM_REJ && !m->remote_id)
		return !f->active && f->remote_id == m->local_id;
	return f->local_id == m->remote_id && (f->active || !f->udp);
}

/* Of a host on which no process takes it. */
static void answers(int host, const struct cm_msg *m)
{
	struct cm_msg a = { .tid = m->tid, .remote_id = m->local_id };

	if (m->kind == CM_REQ) {
		a.kind = CM_REJ;
		a.reason = CM_REJ_SERVICE;
	} else if (m->kind == CM_SIDR_REQ) {
		a.kind = CM_SIDR_REP;
		a.local_id = m->local_id;
		a.reason = CM_SIDR_SERVICE;
	} else if (m->kind == CM_DREQ) {
		a.kind = CM_DREP;
		a.local_id = m->remote_id;
	} else {
		return;
	}
	leaves(host, &a);
}

static void arrives(struct flight *f)
{
	struct host *h = &s.hosts[f->to];
	const struct cm_msg m = f->msg;
	struct end *e = NULL;
	struct cm_out out;

	f->at = 0;
	for (int i = 0; i < ENDS && !e; i++)
		if (is_of(&h->ends[i], &m))
			e = &h->ends[i];
	if (e) {
		cm_fsm_message(&e->fsm, &m, s.now, &out);
		done(f->to, e, &out);
		return;
	}
	if (f->to && h->guid && s.leave_at != never && (m.kind == CM_REQ || m.kind == CM_SIDR_REQ))
		e = new_end(h);
	if (!e) {
		answers(f->to, &m);
		return;
	}
	cm_fsm_requested(&e->fsm, &m, &out);
	done(f->to, e, &out);
	e->muted = true;
}

/* --- time --- */

static void kill_or_start(void)
{
	struct host *h = &s.hosts[s.victim];
	bool dies = h->guid;

	memset(h->ends, 0, sizeof(h->ends));
	h->guid = dies ? 0 : 1 + below(1000000);
	h->next_id = (uint32_t)s.victim << 24 | below(1 << 22);
	s.calm_since = s.now;
	s.killed = true;
	s.kill_at = dies ? s.now + (1 + below(30000)) * ms : never;
	if (!dies && !s.victim)
		connects(0);
}

static bool has_peer(int host, const struct end *e)
{
	const struct host *h = &s.hosts[!host];

	for (int i = 0; i < ENDS; i++)
		if (h->ends[i].used && h->ends[i].fsm.local_id == e->fsm.remote_id &&
		    h->ends[i].fsm.remote_id == e->fsm.local_id &&
		    h->ends[i].fsm.state != CM_CLOSED)
			return true;
	return false;
}

static bool has_heard(const struct end *e)
{
	return e->events[RDMA_CM_EVENT_CONNECT_RESPONSE] || e->events[RDMA_CM_EVENT_ESTABLISHED] ||
	       e->events[RDMA_CM_EVENT_REJECTED] || e->events[RDMA_CM_EVENT_UNREACHABLE];
}

/* When all requests have had their time. */
static void all_leave(void)
{
	bool calm = s.loss <= 30 && s.now - s.calm_since > noticed;

	s.leave_at = s.kill_at = never;
	s.calls = 0;
	for (int h = 0; h < 2; h++)
		for (int i = 0; i < ENDS; i++) {
			struct end *e = &s.hosts[h].ends[i];

			if (!e->used || e->gone)
				continue;
			must(!e->fsm.active || s.now - s.calm_since < settled || has_heard(e),
			     "a request without a result");
			must(!calm || e->fsm.state != CM_ESTABLISHED || has_peer(h, e),
			     "connected to nobody");
			give_up(h, e);
		}
}

static void runs_timer(int host, struct end *e)
{
	struct cm_out out;

	cm_fsm_timer(&e->fsm, s.now, below(2), &out);
	done(host, e, &out);
}

/* What an end does next, and when. */
static uint64_t end_due(const struct end *e, void (**what)(int host, struct end *e))
{
	uint64_t at = e->held ? never : e->fsm.deadline;

	*what = runs_timer;
	if (e->act_at < at) {
		*what = acts;
		at = e->act_at;
	}
	if (e->ask_at < at) {
		*what = asks;
		at = e->ask_at;
	}
	return e->used ? at : never;
}

static struct end *next_end(int host, uint64_t *at, void (**what)(int host, struct end *e))
{
	void (*does)(int host, struct end *e);
	struct end *first = NULL;

	for (int i = 0; i < ENDS; i++) {
		uint64_t due = end_due(&s.hosts[host].ends[i], &does);

		if (due >= *at)
			continue;
		*at = due;
		*what = does;
		first = &s.hosts[host].ends[i];
	}
	return first;
}

static bool step(void)
{
	uint64_t at = s.leave_at < s.kill_at ? s.leave_at : s.kill_at;
	void (*what)(int host, struct end *e) = NULL;
	struct flight *f = NULL;
	struct end *e[2];

	e[0] = next_end(0, &at, &what);
	e[1] = next_end(1, &at, &what);
	for (int i = 0; i < FLIGHT; i++)
		if (s.flights[i].at && s.flights[i].at < at) {
			f = &s.flights[i];
			at = f->at;
		}
	if (at == never)
		return false;
	s.now = at > s.now ? at : s.now;
	if (f)
		arrives(f);
	else if (e[1])
		what(1, e[1]);
	else if (e[0])
		what(0, e[0]);
	else if (s.kill_at <= s.leave_at)
		kill_or_start();
	else
		all_leave();
	if (s.calls && chance(2)) {
		s.calls--;
		connects(0);
	}
	return true;
}

static void begin(uint64_t seed)
{
	memset(&s, 0, sizeof(s));
	s.seed = seed;
	s.rng = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	s.loss = below(2) ? below(60) : 0;
	s.copies = below(2) ? 25 : 0;
	s.moody = below(2) ? below(40) : 0;
	s.victim = (int)below(2);
	s.kill_at = below(2) ? (1 + below(100000)) * ms : never;
	s.leave_at = (below(4) ? 450000 : 1 + below(450000)) * ms;
	s.calls = below(CALLS);
	for (int h = 0; h < 2; h++) {
		s.hosts[h].guid = 1000001 + (unsigned int)h;
		s.hosts[h].next_id = (uint32_t)h << 24 | below(1 << 22);
	}
	connects(0);
}

TEST(two_hosts_are_never_left_half_connected)
{
	uint64_t seeds = length_full() ? FULL : SEEDS;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		begin(seed);
		while (step())
			must(s.now < over, "there is no end");
		for (int h = 0; h < 2; h++)
			for (int i = 0; i < ENDS; i++)
				must(!s.hosts[h].ends[i].used, "an end that is not closed");
	}
}

RUN_TESTS(unit_test(two_hosts_are_never_left_half_connected))
