// SPDX-License-Identifier: MIT
#include "cm/cm_fsm.h"
#include <errno.h>
#include <string.h>

enum {
	RESPONSE = 20, /* code of our response time, as Linux's */
	PACKET_LIFE = 16,
	RETRIES = 15,
	SERVICE = 24, /* of an MRA */
	DEATHS = 2,
	CODE_MAX = 24, /* longer times that a peer asks for are cut */
};

static const uint64_t first_wait = 20000000, refused_wait = 2000000;

/* ns of a time code, as Linux rounds them. */
static uint64_t code_ns(unsigned int code)
{
	if (code > CODE_MAX)
		code = CODE_MAX;
	return (UINT64_C(1) << (code > 8 ? code - 8 : 0)) * 1000000;
}

/* A message goes there and its answer comes back in the path's packet life time each. */
static uint64_t request_wait(const struct cm_fsm *f)
{
	return 2 * code_ns(f->life) + code_ns(RESPONSE);
}

static void nothing(struct cm_out *out)
{
	out->send = false;
	out->event = CM_NO_EVENT;
	out->status = 0;
}

static void raise_event(struct cm_out *out, int event, int status)
{
	out->event = event;
	out->status = status;
}

static void parted(struct cm_fsm *f, struct cm_out *out, int status)
{
	f->parted = true;
	raise_event(out, RDMA_CM_EVENT_DISCONNECTED, status);
}

static void stop(struct cm_fsm *f, enum cm_state state)
{
	f->state = state;
	f->deadline = UINT64_MAX;
}

static void timewait(struct cm_fsm *f, uint64_t now)
{
	f->state = CM_TIMEWAIT;
	f->deadline = now + code_ns(f->ack_timeout);
}

static struct cm_msg *message(struct cm_fsm *f, struct cm_out *out, uint16_t kind)
{
	out->send = true;
	out->msg = (struct cm_msg){
		.kind = kind, .tid = f->tid, .local_id = f->local_id, .remote_id = f->remote_id
	};
	return &out->msg;
}

/* A copy of the caller's message, with what every one has. */
static struct cm_msg *completed(struct cm_fsm *f, struct cm_out *out, const struct cm_msg *m)
{
	out->send = true;
	out->msg = *m;
	out->msg.tid = f->tid;
	out->msg.local_id = f->local_id;
	out->msg.remote_id = f->remote_id;
	return &out->msg;
}

/* out->msg leaves now, and again until it is answered. */
static void repeat(struct cm_fsm *f, const struct cm_out *out, uint64_t full, unsigned int tries,
		   uint64_t now)
{
	f->sent = out->msg;
	f->delayed = false;
	f->full = full;
	f->next_full = now + full;
	f->give_up = now + full * (tries + 1);
	f->wait = full < first_wait ? full : first_wait;
	f->deadline = now + f->wait;
}

void cm_fsm_init(struct cm_fsm *f, uint32_t local_id, uint64_t guid)
{
	*f = (struct cm_fsm){ .local_id = local_id,
			      .guid = guid,
			      .tid = UINT64_C(0x73000000) << 32 | local_id,
			      .ack_timeout = PACKET_LIFE + 1,
			      .life = PACKET_LIFE,
			      .deadline = UINT64_MAX };
}

/* --- calls --- */

int cm_fsm_connect(struct cm_fsm *f, const struct cm_msg *req, uint64_t now, struct cm_out *out)
{
	struct cm_msg *m;

	nothing(out);
	if (f->state != CM_IDLE)
		return EINVAL;
	f->active = true;
	f->udp = req->kind == CM_SIDR_REQ;
	m = completed(f, out, req);
	m->ca_guid = f->guid;
	if (!f->udp) {
		m->remote_timeout = m->local_timeout = RESPONSE;
		m->max_cm_retries = RETRIES;
		f->local_qpn = m->qpn;
		f->ack_timeout = m->path[0].ack_timeout;
		f->life = f->ack_timeout ? f->ack_timeout - 1 : PACKET_LIFE;
	}
	f->state = f->udp ? CM_SIDR_SENT : CM_REQ_SENT;
	repeat(f, out, f->udp ? code_ns(RESPONSE) : request_wait(f), RETRIES, now);
	return 0;
}

void cm_fsm_requested(struct cm_fsm *f, const struct cm_msg *req, struct cm_out *out)
{
	nothing(out);
	f->tid = req->tid;
	f->udp = req->kind == CM_SIDR_REQ;
	f->remote_id = req->local_id;
	if (f->udp)
		f->local_id = req->local_id;
	f->remote_guid = req->ca_guid;
	f->remote_qpn = req->qpn;
	f->rep_wait = code_ns(req->local_timeout);
	f->rep_tries = req->max_cm_retries;
	f->ack_timeout = req->path[0].ack_timeout;
	f->state = f->udp ? CM_SIDR_RCVD : CM_REQ_RCVD;
	raise_event(out, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

int cm_fsm_accept(struct cm_fsm *f, const struct cm_msg *rep, uint64_t now, struct cm_out *out)
{
	struct cm_msg *m;

	nothing(out);
	if (f->state != CM_REQ_RCVD && f->state != CM_SIDR_RCVD)
		return EINVAL;
	m = completed(f, out, rep);
	if (f->udp) {
		f->sent = *m;
		stop(f, CM_SIDR_DONE);
		return 0;
	}
	m->ca_guid = f->guid;
	f->local_qpn = m->qpn;
	f->state = CM_REP_SENT;
	repeat(f, out, f->rep_wait, f->rep_tries, now);
	return 0;
}

int cm_fsm_establish(struct cm_fsm *f, struct cm_out *out)
{
	nothing(out);
	if (f->state != CM_REP_RCVD)
		return EINVAL;
	message(f, out, CM_RTU);
	stop(f, CM_ESTABLISHED);
	return 0;
}

static uint8_t what_is_rejected(const struct cm_fsm *f)
{
	return f->state == CM_REQ_RCVD ? 0 : f->state == CM_REP_RCVD ? 1 : 2;
}

int cm_fsm_reject(struct cm_fsm *f, const struct cm_msg *rej, struct cm_out *out)
{
	nothing(out);
	if (f->state == CM_SIDR_RCVD) {
		completed(f, out, rej);
		f->sent = out->msg;
		stop(f, CM_SIDR_DONE);
		return 0;
	}
	if (f->state != CM_REQ_SENT && f->state != CM_REQ_RCVD && f->state != CM_REP_SENT &&
	    f->state != CM_REP_RCVD)
		return EINVAL;
	completed(f, out, rej)->about = what_is_rejected(f);
	if (f->state == CM_REQ_RCVD)
		out->msg.local_id = 0; /* as Linux */
	f->sent = out->msg; /* on_req() */
	stop(f, CM_CLOSED);
	return 0;
}

static void send_dreq(struct cm_fsm *f, uint64_t now, struct cm_out *out)
{
	struct cm_msg *m = message(f, out, CM_DREQ);

	m->tid = f->tid ^ UINT64_C(1) << 40;
	m->qpn = f->remote_qpn;
	f->state = CM_DREQ_SENT;
	repeat(f, out, f->active ? request_wait(f) : f->rep_wait, RETRIES, now);
}

int cm_fsm_disconnect(struct cm_fsm *f, uint64_t now, struct cm_out *out)
{
	nothing(out);
	if (f->state == CM_IDLE)
		return EINVAL;
	if (f->state == CM_ESTABLISHED) {
		send_dreq(f, now, out);
	} else if (f->state == CM_DREQ_RCVD) {
		message(f, out, CM_DREP);
		timewait(f, now);
	}
	return 0;
}

int cm_fsm_notify(struct cm_fsm *f, struct cm_out *out)
{
	nothing(out);
	if (f->state == CM_ESTABLISHED)
		return EISCONN;
	if (f->state != CM_REP_SENT)
		return EINVAL;
	stop(f, CM_ESTABLISHED);
	raise_event(out, RDMA_CM_EVENT_ESTABLISHED, 0);
	return 0;
}

/* The REJ of an end that is given up. */
static void give_up(struct cm_fsm *f, struct cm_out *out)
{
	bool unanswered = f->state == CM_REQ_SENT;
	uint8_t about = unanswered ? 2 : what_is_rejected(f);
	struct cm_msg *m = message(f, out, CM_REJ);

	m->about = about;
	m->reason = unanswered ? CM_REJ_TIMEOUT : CM_REJ_CONSUMER;
	if (f->state == CM_REQ_RCVD)
		m->local_id = 0;
	if (unanswered) {
		m->info_len = sizeof(f->guid);
		memcpy(m->info, &f->guid, sizeof(f->guid));
	}
	stop(f, CM_CLOSED);
}

bool cm_fsm_destroy(struct cm_fsm *f, uint64_t now, struct cm_out *out)
{
	nothing(out);
	switch (f->state) {
	case CM_REQ_SENT:
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		give_up(f, out);
		return false;
	case CM_ESTABLISHED:
		if (f->xrc && !f->active) {
			stop(f, CM_CLOSED);
			return false;
		}
		send_dreq(f, now, out);
		return true;
	case CM_DREQ_RCVD:
		message(f, out, CM_DREP);
		timewait(f, now);
		return true;
	case CM_SIDR_RCVD:
		message(f, out, CM_SIDR_REP)->reason = 2;
		stop(f, CM_CLOSED);
		return false;
	case CM_SIDR_DONE:
		f->ack_timeout = RESPONSE;
		timewait(f, now);
		return true;
	case CM_DREQ_SENT:
	case CM_TIMEWAIT:
		return true;
	default:
		stop(f, CM_CLOSED);
		return false;
	}
}

/* --- messages --- */

static bool ids_match(const struct cm_fsm *f, const struct cm_msg *m)
{
	return m->remote_id == f->local_id && m->local_id == f->remote_id;
}

/* A repeated question: the answer is late, or was lost, or the connection has ended since. */
static void on_req(struct cm_fsm *f, struct cm_out *out)
{
	struct cm_msg *m;

	if (f->state == CM_REQ_RCVD) {
		message(f, out, CM_MRA)->service_timeout = SERVICE;
	} else if (f->state == CM_TIMEWAIT && !f->udp) {
		m = message(f, out, CM_REJ);
		m->about = 2;
		m->reason = CM_REJ_STALE;
	} else if (f->state == CM_REP_SENT || f->state == CM_SIDR_DONE ||
		   (f->state == CM_CLOSED && f->sent.kind == CM_REJ) ||
		   (f->state == CM_TIMEWAIT && f->udp)) {
		out->send = true;
		out->msg = f->sent;
	}
}

static void on_mra(struct cm_fsm *f, const struct cm_msg *m, uint64_t now)
{
	bool mine = (f->state == CM_REQ_SENT && m->about == 0) ||
		    (f->state == CM_REP_SENT && m->about == 1 && ids_match(f, m));

	if (!mine || m->remote_id != f->local_id || f->delayed)
		return;
	f->delayed = true;
	f->deadline = f->next_full = now + code_ns(m->service_timeout);
	if (f->give_up < f->deadline + f->full)
		f->give_up = f->deadline + f->full;
}

void cm_fsm_refuse(struct cm_fsm *f, const struct cm_msg *rep, uint16_t reason, struct cm_out *out)
{
	struct cm_msg *m;

	nothing(out);
	m = message(f, out, CM_REJ);
	m->remote_id = rep->local_id;
	m->about = 1;
	m->reason = reason;
}

uint32_t cm_fsm_qpn(const struct cm_msg *rep)
{
	return rep->local_eecn ? rep->local_eecn : rep->qpn;
}

static void on_rep(struct cm_fsm *f, const struct cm_msg *m, struct cm_out *out)
{
	struct cm_msg *a;

	if (f->state == CM_REQ_SENT && m->remote_id == f->local_id) {
		if (cm_fsm_qpn(m) < CM_FIRST_QPN) {
			cm_fsm_refuse(f, m, CM_REJ_CONSUMER, out);
			return;
		}
		f->remote_id = m->local_id;
		f->remote_qpn = cm_fsm_qpn(m);
		f->remote_guid = m->ca_guid;
		stop(f, CM_REP_RCVD);
		raise_event(out, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	} else if (f->active && ids_match(f, m) && f->state == CM_ESTABLISHED) {
		message(f, out, CM_RTU);
	} else if (ids_match(f, m) && f->state == CM_REP_RCVD) {
		a = message(f, out, CM_MRA);
		a->about = 1;
		a->service_timeout = SERVICE;
	}
}

static void on_rtu(struct cm_fsm *f, const struct cm_msg *m, struct cm_out *out)
{
	if (f->state != CM_REP_SENT || !ids_match(f, m))
		return;
	stop(f, CM_ESTABLISHED);
	raise_event(out, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void on_dreq(struct cm_fsm *f, const struct cm_msg *m, uint64_t now, struct cm_out *out)
{
	bool asks = m->qpn == CM_ASK_QPN && (f->state == CM_TIMEWAIT || f->state == CM_CLOSED);

	if (!ids_match(f, m) || (m->qpn != f->local_qpn && !asks))
		return;
	switch (f->state) {
	case CM_REP_SENT:
	case CM_REP_RCVD:
	case CM_ESTABLISHED:
		f->tid = m->tid;
		stop(f, CM_DREQ_RCVD);
		parted(f, out, 0);
		break;
	case CM_DREQ_SENT:
		message(f, out, CM_DREP)->tid = m->tid;
		timewait(f, now);
		parted(f, out, 0);
		break;
	case CM_TIMEWAIT:
	case CM_CLOSED: /* what told the peer of the end was lost */
		message(f, out, CM_DREP)->tid = m->tid;
		break;
	default:
		break;
	}
}

static uint64_t question_tid(const struct cm_fsm *f)
{
	return f->tid ^ UINT64_C(1) << 41;
}

/* Once may be a process that has just given its port to another, twice is none. */
static bool is_dead(struct cm_fsm *f, const struct cm_msg *m)
{
	if (f->state != CM_ESTABLISHED || !f->asked || m->tid != question_tid(f))
		return false;
	f->asked = false;
	return ++f->deaths == DEATHS;
}

static void on_drep(struct cm_fsm *f, const struct cm_msg *m, uint64_t now, struct cm_out *out)
{
	if (ids_match(f, m) && is_dead(f, m)) {
		cm_fsm_death(f, now, out);
		return;
	}
	if (f->state != CM_DREQ_SENT || !ids_match(f, m))
		return;
	timewait(f, now);
	parted(f, out, 0);
}

/* Programs tell a peer their port, and listen there a moment later: with adapters, whose
 * connections take milliseconds, that goes well. True: it is asked again, later each time. */
static bool is_early(struct cm_fsm *f, uint64_t now)
{
	if (f->refusals == CM_REFUSALS)
		return false;
	f->deadline = f->next_full = now + (refused_wait << f->refusals++);
	return true;
}

static void on_rej(struct cm_fsm *f, const struct cm_msg *m, uint64_t now, struct cm_out *out)
{
	bool known = f->remote_id && m->local_id == f->remote_id;

	if (m->remote_id ? m->remote_id != f->local_id : !known)
		return;
	switch (f->state) {
	case CM_REQ_SENT:
		if (m->reason == CM_REJ_SERVICE && is_early(f, now))
			return;
		/* fall through */
	case CM_REQ_RCVD:
		stop(f, CM_CLOSED);
		break;
	case CM_REP_SENT:
	case CM_REP_RCVD:
	case CM_ESTABLISHED:
		if (!known)
			return;
		timewait(f, now);
		break;
	case CM_DREQ_SENT:
		if (!known)
			return;
		timewait(f, now);
		parted(f, out, 0);
		return;
	default:
		return;
	}
	raise_event(out, RDMA_CM_EVENT_REJECTED, m->reason);
}

static void on_sidr_rep(struct cm_fsm *f, const struct cm_msg *m, uint64_t now, struct cm_out *out)
{
	if (f->state != CM_SIDR_SENT || m->local_id != f->local_id)
		return;
	if (m->reason == CM_SIDR_SERVICE && is_early(f, now))
		return;
	if (!m->reason && m->qpn < CM_FIRST_QPN)
		return;
	stop(f, CM_CLOSED);
	f->remote_qpn = m->qpn;
	if (m->reason)
		raise_event(out, RDMA_CM_EVENT_UNREACHABLE, m->reason);
	else
		raise_event(out, RDMA_CM_EVENT_ESTABLISHED, 0);
}

void cm_fsm_message(struct cm_fsm *f, const struct cm_msg *m, uint64_t now, struct cm_out *out)
{
	nothing(out);
	switch (m->kind) {
	case CM_REQ:
	case CM_SIDR_REQ:
		on_req(f, out);
		break;
	case CM_MRA:
		on_mra(f, m, now);
		break;
	case CM_REP:
		on_rep(f, m, out);
		break;
	case CM_RTU:
		on_rtu(f, m, out);
		break;
	case CM_DREQ:
		on_dreq(f, m, now, out);
		break;
	case CM_DREP:
		on_drep(f, m, now, out);
		break;
	case CM_REJ:
		on_rej(f, m, now, out);
		break;
	case CM_SIDR_REP:
		on_sidr_rep(f, m, now, out);
		break;
	default: /* LAP, APR: paths do not move on RoCE */
		break;
	}
}

/* --- time and death --- */

static void timed_out(struct cm_fsm *f, uint64_t now, struct cm_out *out)
{
	switch (f->state) {
	case CM_DREQ_SENT:
		timewait(f, now);
		parted(f, out, -ETIMEDOUT);
		break;
	case CM_REP_SENT:
		message(f, out, CM_REJ)->reason = CM_REJ_TIMEOUT;
		out->msg.about = 1;
		/* fall through */
	default:
		stop(f, CM_CLOSED);
		raise_event(out, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	}
}

void cm_fsm_depart(struct cm_fsm *f, uint64_t now, struct cm_out *out)
{
	nothing(out);
	out->send = true;
	out->msg = f->sent;
	repeat(f, out, f->full, RETRIES, now);
}

void cm_fsm_timer(struct cm_fsm *f, uint64_t now, bool quick, struct cm_out *out)
{
	nothing(out);
	if (now < f->deadline)
		return;
	if (f->state == CM_TIMEWAIT) {
		stop(f, CM_CLOSED);
		if (f->parted)
			raise_event(out, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		return;
	}
	if (now >= f->give_up) {
		timed_out(f, now, out);
		return;
	}
	if (quick || now >= f->next_full) {
		out->send = true;
		out->msg = f->sent;
	}
	if (now >= f->next_full)
		f->next_full = now + f->full;
	f->wait = f->wait < f->full / 2 ? 2 * f->wait : f->full;
	f->deadline = now + f->wait < f->next_full ? now + f->wait : f->next_full;
	if (f->deadline > f->give_up)
		f->deadline = f->give_up;
}

bool cm_fsm_outlives(const struct cm_fsm *f)
{
	return f->state == CM_ESTABLISHED && f->xrc && f->active;
}

void cm_fsm_ask(struct cm_fsm *f, struct cm_out *out)
{
	struct cm_msg *m;

	nothing(out);
	if (f->state != CM_ESTABLISHED || cm_fsm_outlives(f))
		return;
	if (f->asked)
		f->deaths = 0;
	f->asked = true;
	m = message(f, out, CM_DREQ);
	m->tid = question_tid(f);
	m->qpn = CM_ASK_QPN;
}

void cm_fsm_unreached(struct cm_fsm *f, int error, struct cm_out *out)
{
	nothing(out);
	if (f->state != CM_REQ_SENT && f->state != CM_REP_SENT && f->state != CM_SIDR_SENT)
		return;
	stop(f, CM_CLOSED);
	raise_event(out, RDMA_CM_EVENT_UNREACHABLE, -error);
}

void cm_fsm_death(struct cm_fsm *f, uint64_t now, struct cm_out *out)
{
	nothing(out);
	switch (f->state) {
	case CM_REQ_SENT:
	case CM_REP_SENT:
	case CM_REP_RCVD:
	case CM_REQ_RCVD:
		stop(f, CM_CLOSED);
		raise_event(out, RDMA_CM_EVENT_REJECTED, CM_REJ_CONSUMER);
		break;
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		timewait(f, now);
		parted(f, out, 0);
		break;
	case CM_SIDR_SENT:
		stop(f, CM_CLOSED);
		raise_event(out, RDMA_CM_EVENT_UNREACHABLE, 2);
		break;
	default:
		break;
	}
}
