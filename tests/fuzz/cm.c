// SPDX-License-Identifier: MIT
/* One end of a connection, or of a question for a UD queue pair: the program's calls, messages of a
 * peer that sends what it likes, the peer's death and time, in any order. Each event comes at most
 * once, what does not name the connection does not change it, every state but a quiet one has a
 * deadline, and an end that is given up is over when the timers are. */
#include <errno.h>
#include <string.h>
#include "cm/cm_fsm.h"
#include "fuzz.h"

enum { LOCAL = 1, REMOTE = 2, QPN = 11, PEER_QPN = 22, EVENTS = 32, STEPS = 4000 };

const struct fuzz_target fuzz_target = { "cm", 512, 200000 };

static const uint64_t ms = 1000000, end = UINT64_C(100000000000000); /* 100000 s */

struct run {
	struct cm_fsm f;
	uint64_t now;
	unsigned int events[EVENTS];
};

static const uint16_t kinds[] = { CM_REQ,  CM_MRA,  CM_REJ,	 CM_REP,      CM_RTU,
				  CM_DREQ, CM_DREP, CM_SIDR_REQ, CM_SIDR_REP, CM_LAP };

static bool is_quiet(enum cm_state s)
{
	return s == CM_IDLE || s == CM_REQ_RCVD || s == CM_REP_RCVD || s == CM_ESTABLISHED ||
	       s == CM_DREQ_RCVD || s == CM_SIDR_RCVD || s == CM_SIDR_DONE || s == CM_CLOSED;
}

static void event(struct run *r, const struct cm_out *out)
{
	unsigned int *n = r->events;

	if (out->event == CM_NO_EVENT)
		return;
	must(out->event >= 0 && out->event < EVENTS);
	must(++n[out->event] == 1);
	must(n[RDMA_CM_EVENT_REJECTED] + n[RDMA_CM_EVENT_UNREACHABLE] +
		     n[RDMA_CM_EVENT_DISCONNECTED] <=
	     1);
	must(!n[RDMA_CM_EVENT_TIMEWAIT_EXIT] || n[RDMA_CM_EVENT_DISCONNECTED]);
	must(out->event != RDMA_CM_EVENT_ESTABLISHED || !n[RDMA_CM_EVENT_DISCONNECTED]);
}

static void done(struct run *r, const struct cm_out *out)
{
	uint8_t built[MAD_LEN];
	struct cm_msg again;

	if (out->send) {
		must(!cm_build(&out->msg, built) && !cm_parse(built, sizeof(built), &again));
		must(again.kind == out->msg.kind);
	}
	event(r, out);
	must(r->f.state <= CM_CLOSED);
	must(is_quiet(r->f.state) == (r->f.deadline == UINT64_MAX));
}

static struct cm_msg anything(struct fuzz_bytes *b)
{
	uint8_t ids = (uint8_t)fuzz_take(b, 1);

	return (struct cm_msg){
		.kind = kinds[fuzz_take(b, 1) % (sizeof(kinds) / sizeof(kinds[0]))],
		.local_id = ids & 1   ? REMOTE
			    : ids & 2 ? LOCAL
				      : 0,
		.remote_id = ids & 4   ? LOCAL
			     : ids & 8 ? REMOTE
				       : 0,
		.qpn = ids & 16	  ? QPN
		       : ids & 32 ? PEER_QPN
				  : CM_ASK_QPN,
		.tid = fuzz_take(b, 1),
		.about = (uint8_t)fuzz_take(b, 1) % 4,
		.reason = (uint8_t)fuzz_take(b, 1),
		.service_timeout = (uint8_t)fuzz_take(b, 1) % 32,
	};
}

static bool names_it(const struct cm_fsm *f, const struct cm_msg *m)
{
	return m->remote_id == f->local_id && m->local_id == f->remote_id &&
	       (m->kind != CM_DREQ || m->qpn == f->local_qpn);
}

static void message(struct run *r, struct fuzz_bytes *b)
{
	struct cm_msg m = anything(b);
	enum cm_state before = r->f.state;
	bool named = names_it(&r->f, &m);
	struct cm_out out;

	if (before == CM_IDLE)
		return; /* a request makes its end: call() */
	cm_fsm_message(&r->f, &m, r->now, &out);
	must(before != CM_ESTABLISHED || named || r->f.state == CM_ESTABLISHED || !m.remote_id);
	must(before != CM_CLOSED || r->f.state == CM_CLOSED);
	done(r, &out);
}

static void request(struct run *r, struct fuzz_bytes *b)
{
	struct cm_msg m = { .kind = fuzz_take(b, 1) & 1 ? CM_REQ : CM_SIDR_REQ,
			    .local_id = REMOTE,
			    .qpn = PEER_QPN,
			    .local_timeout = (uint8_t)fuzz_take(b, 1) % 32,
			    .max_cm_retries = (uint8_t)fuzz_take(b, 1) % 16 };
	struct cm_out out;

	if (r->f.state != CM_IDLE)
		return;
	m.path[0].ack_timeout = (uint8_t)fuzz_take(b, 1) % 32;
	cm_fsm_requested(&r->f, &m, &out);
	done(r, &out);
}

static void call(struct run *r, struct fuzz_bytes *b)
{
	bool udp = fuzz_take(b, 1) & 1;
	struct cm_msg m = { .kind = udp ? CM_SIDR_REQ : CM_REQ, .qpn = QPN };
	struct cm_msg rep = { .kind = r->f.udp ? CM_SIDR_REP : CM_REP, .qpn = QPN };
	struct cm_msg rej = { .kind = r->f.udp ? CM_SIDR_REP : CM_REJ, .reason = 2 };
	enum cm_state before = r->f.state;
	struct cm_out out;
	int err = 0;

	switch (fuzz_take(b, 1) % 6) {
	case 0:
		err = cm_fsm_connect(&r->f, &m, r->now, &out);
		break;
	case 1:
		err = cm_fsm_accept(&r->f, &rep, r->now, &out);
		break;
	case 2:
		err = cm_fsm_establish(&r->f, &out);
		break;
	case 3:
		err = cm_fsm_reject(&r->f, &rej, &out);
		break;
	case 4:
		err = cm_fsm_disconnect(&r->f, r->now, &out);
		break;
	default:
		err = cm_fsm_notify(&r->f, &out);
	}
	must(!err || err == EINVAL || err == EISCONN);
	must(!err || (r->f.state == before && !out.send && out.event == CM_NO_EVENT));
	done(r, &out);
}

static void timer(struct run *r, bool quick)
{
	struct cm_out out;

	if (r->f.deadline == UINT64_MAX)
		return;
	if (r->now < r->f.deadline)
		r->now = r->f.deadline;
	cm_fsm_timer(&r->f, r->now, quick, &out);
	done(r, &out);
}

static void happen(struct run *r, struct fuzz_bytes *b)
{
	struct cm_out out;

	switch (fuzz_take(b, 1) % 9) {
	case 0:
		request(r, b);
		return;
	case 1:
	case 2:
		call(r, b);
		return;
	case 3:
		timer(r, fuzz_take(b, 1) & 1);
		return;
	case 4:
		r->now += fuzz_take(b, 2) * ms;
		return;
	case 5:
		cm_fsm_death(&r->f, r->now, &out);
		break;
	case 6:
		cm_fsm_unreached(&r->f, EHOSTUNREACH, &out);
		break;
	case 7:
		cm_fsm_ask(&r->f, &out);
		break;
	default:
		message(r, b);
		return;
	}
	done(r, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	struct run r = { .now = 1 };
	struct cm_out out;
	int steps = 0;

	cm_fsm_init(&r.f, LOCAL, 100);
	while (b.left)
		happen(&r, &b);
	cm_fsm_destroy(&r.f, r.now, &out);
	if (out.send)
		must(out.event == CM_NO_EVENT);
	while (r.f.deadline != UINT64_MAX) {
		cm_fsm_timer(&r.f, r.now = r.f.deadline, true, &out);
		must(++steps < STEPS && r.now < end);
	}
	must(r.f.state == CM_CLOSED);
	return 0;
}
