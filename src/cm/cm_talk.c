// SPDX-License-Identifier: MIT
#include "cm/cm_talk.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "cm/cm_addr.h"
#include "cm/cm_blame.h"
#include "cm/cm_event.h"
#include "cm/cm_far.h"
#include "cm/cm_id.h"
#include "cm/cm_watch.h"
#include "engine/gsi/gsi_way.h"
#include "engine/node.h"
#include "util/clock.h"

#define UNREACHED_NS UINT64_C(1000000000)

/* --- messages out --- */

static int connect_peer(struct cm_id *id)
{
	union ibv_gid to;
	int err;

	if (host_is_alone(cm.node->host))
		return EPERM; /* its queue pairs would not reach those of another process */
	cm_addr_gid(&id->dst, &to);
	err = gsi_port_connect(id->ps, cm_addr_port(&id->dst), &to, &id->conn.fd);
	return err ? err : cm_talk_connected(id);
}

void cm_talk_address(const struct cm_id *id, struct gsi_mad *out)
{
	*out = (struct gsi_mad){ .magic = GSI_MAGIC,
				 .net = id->way.net,
				 .ifindex = id->way.ifindex,
				 .from = id->way.sgid,
				 .to = id->way.dgid };
}

/* ECONNREFUSED: nobody listens; EAGAIN: lost, it will be sent again; ENOTCONN: the peer's end is
 * gone, and its process perhaps. */
static int transmit(struct cm_id *id, const struct cm_msg *m)
{
	struct gsi_mad mad;
	int err = 0;

	cm_talk_address(id, &mad);
	cm_build(m, mad.mad);
	if (id->way.net)
		return gsi_send(cm.node, &mad, &id->quick);
	if (id->conn.fd < 0 && (m->kind == CM_REQ || m->kind == CM_SIDR_REQ))
		err = connect_peer(id);
	if (id->conn.fd < 0 && m->kind == CM_DREQ)
		err = ENOTCONN;
	if (!err && id->conn.fd >= 0)
		if (gsi_way_say(cm.node, id->conn.fd, &mad))
			err = EAGAIN;
	id->lost = err == EAGAIN;
	id->quick |= gsi_way_loses(cm.node);
	return err;
}

/* What a host says of a port on which nobody listens. */
static void nobody_listens(struct cm_id *id)
{
	struct cm_msg m = { .kind = id->fsm.udp ? CM_SIDR_REP : CM_REJ,
			    .reason = id->fsm.udp ? CM_SIDR_SERVICE : CM_REJ_SERVICE };

	m.local_id = id->fsm.udp ? id->fsm.local_id : 0;
	m.remote_id = id->fsm.local_id;
	cm_talk_take(id, &m);
}

/* Nobody is there to answer the DREQ. */
static void peer_ended(struct cm_id *id)
{
	struct cm_out out;

	cm_fsm_death(&id->fsm, clock_now(), &out);
	cm_talk(id, &out);
}

/* --- events --- */

void cm_talk_ah(const struct cm_id *id, struct ibv_ah_attr *out)
{
	*out = (struct ibv_ah_attr){ .is_global = 1,
				     .port_num = 1,
				     .sl = id->way.sl,
				     .static_rate = id->way.rate,
				     .grh = { .dgid = id->way.dgid,
					      .flow_label = id->way.flow_label,
					      .sgid_index = id->way.sgid_index,
					      .hop_limit = id->way.hop_limit,
					      .traffic_class = id->way.tclass } };
}

void cm_talk_param(const struct cm_id *id, const struct cm_msg *m, struct cm_param *out)
{
	size_t room = cm_private_room(m->kind), skip = 0;

	if (m->kind == CM_REQ || m->kind == CM_SIDR_REQ)
		skip = CM_IP_LEN;
	if (room > skip) {
		out->data_len = (uint8_t)(room - skip);
		memcpy(out->data, m->private_data + skip, room - skip);
	}
	out->responder_resources = m->initiator_depth;
	out->initiator_depth = m->responder_resources;
	out->flow_control = m->flow_control;
	out->retry_count = m->retry_count;
	out->rnr_retry_count = m->rnr_retry;
	out->srq = m->srq;
	out->qpn = m->kind == CM_REP ? cm_fsm_qpn(m) : m->qpn;
	out->qkey = m->qkey;
	out->ece_vendor = m->vendor_id;
	out->ece_options = m->modifier;
	if (m->kind == CM_SIDR_REP && !m->reason)
		cm_talk_ah(id, &out->ah);
	if (m->kind == CM_SIDR_REQ)
		out->qpn = out->qkey = 0;
}

/* An event of which the program sees the peer's message; one of an end may have come without. */
static bool shows_message(const struct cm_id *id, int event)
{
	switch (event) {
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return id->peer.kind;
	case RDMA_CM_EVENT_ESTABLISHED:
		return id->fsm.udp && id->peer.kind;
	case RDMA_CM_EVENT_REJECTED:
		return id->peer.kind == CM_REJ;
	case RDMA_CM_EVENT_UNREACHABLE:
		return id->peer.kind == CM_SIDR_REP;
	default:
		return false;
	}
}

static void fill(const struct cm_id *id, struct cm_event *e)
{
	if (shows_message(id, e->news.event))
		cm_talk_param(id, &id->peer, &e->news.param);
}

static void raise_event(struct cm_id *id, const struct cm_out *out)
{
	if (id->gone || id->muted)
		return;
	cm_blame_event(id, out->event, out->status);
	cm_event_raise(id, out->event, out->status, fill);
}

/* --- bursts --- */

/* Requests to one host that are not answered yet: a socket has room for some 270 messages, and one
 * that is lost costs its sender seconds. */
enum { FLIGHT = 64 };
#define FLIGHT_NS UINT64_C(1000000000) /* no socket delays a message so long */

static bool asks(const struct cm_id *id)
{
	return id->way.net && (id->fsm.state == CM_REQ_SENT || id->fsm.state == CM_SIDR_SENT ||
			       id->fsm.state == CM_DREQ_SENT);
}

static bool same_host(const struct cm_id *a, const struct cm_id *b)
{
	return !memcmp(&a->way.dgid, &b->way.dgid, sizeof(a->way.dgid));
}

/* Its request waits until others to that host are answered. */
static bool must_wait(struct cm_id *id)
{
	unsigned int others = 0;
	struct list *pos;

	if (!asks(id) || id->landed)
		return false;
	list_for_each(pos, &cm.flights)
	{
		const struct cm_id *f = container_of(pos, struct cm_id, flight);

		if (f == id)
			return false;
		others += same_host(f, id);
	}
	id->delayed = others >= FLIGHT;
	if (!id->delayed) {
		list_del(&id->flight);
		list_add(&cm.flights, &id->flight);
		id->departed = clock_now();
		return false;
	}
	if (list_empty(&id->flight))
		list_add_tail(&cm.departures, &id->flight);
	return true;
}

/* The next one that has waited leaves when one is done. */
static void land(struct cm_id *id)
{
	struct list *pos;
	struct cm_out out;

	if (!asks(id))
		id->landed = false; /* what it asks next counts anew */
	else if (!id->landed)
		return;
	if (list_empty(&id->flight))
		return;
	list_del(&id->flight);
	id->delayed = false;
	list_for_each(pos, &cm.departures)
	{
		struct cm_id *next = container_of(pos, struct cm_id, flight);

		if (!same_host(next, id))
			continue;
		if (must_wait(next))
			return;
		cm_fsm_depart(&next->fsm, clock_now(), &out);
		transmit(next, &out.msg);
		cm_timer(&next->timer, next->fsm.deadline);
		return;
	}
}

/* --- the machine --- */

static void over(struct cm_id *id)
{
	if (id->gone && (id->fsm.state == CM_CLOSED || !id->way.net))
		cm_id_free(id);
}

/* Whether a repetition soon is any use. On one host nothing is lost but what a socket did not take,
 * and requests that meet a full listener; unless SOFTHCA_FAULT says so. */
static bool is_quick(const struct cm_id *id)
{
	if (id->way.net || id->quick)
		return id->quick;
	return id->lost || id->fsm.state == CM_REQ_SENT || id->fsm.state == CM_SIDR_SENT;
}

static void on_timer(struct timer *t, uint64_t now)
{
	struct cm_id *id = container_of(t, struct cm_id, timer);
	struct cm_out out;

	cm_fsm_timer(&id->fsm, now, is_quick(id), &out);
	if (out.send && asks(id) && now - id->departed >= FLIGHT_NS)
		id->landed = true;
	cm_talk(id, &out);
}

/* Whether the peer's process still lives: other stacks tell by themselves. */
static void ask(struct cm_id *id)
{
	struct gsi_mad mad;
	struct cm_out out;

	cm_talk_address(id, &mad);
	id->quick = id->quick || gsi_knock(cm.node, &mad, false);
	if (!id->quick)
		return;
	cm_fsm_ask(&id->fsm, &out);
	cm_talk(id, &out);
}

static bool awaits_answer(const struct cm_id *id)
{
	return id->fsm.state == CM_REQ_RCVD || id->fsm.state == CM_SIDR_RCVD;
}

static void leave_tables(struct cm_id *id)
{
	if (id->qp_key)
		hash_del(&cm.qpns, id->qp_key);
	id->qp_key = 0;
}

int cm_talk(struct cm_id *id, const struct cm_out *out)
{
	int err = out->send && !must_wait(id) ? transmit(id, &out->msg) : 0;

	land(id);
	if (out->event != CM_NO_EVENT)
		raise_event(id, out);
	if (id->fsm.state >= CM_DREQ_SENT)
		leave_tables(id);
	if (!awaits_answer(id))
		list_del(&id->requester.node);
	cm_far_follow(id, ask);
	id->timer.fire = on_timer;
	cm_timer(&id->timer, id->delayed ? UINT64_MAX : id->fsm.deadline);
	if (err == ECONNREFUSED &&
	    (id->fsm.state == CM_REQ_SENT || id->fsm.state == CM_SIDR_SENT)) {
		nobody_listens(id);
		return 0;
	}
	if (err == ENOTCONN && id->fsm.state == CM_DREQ_SENT) {
		peer_ended(id);
		return 0;
	}
	over(id);
	return err == EAGAIN || err == ECONNREFUSED ? 0 : err;
}

static uint64_t qp_key(const struct cm_id *id, const struct cm_msg *rep)
{
	return cm_id_qp_key(&id->way.dgid, rep->ca_guid, cm_fsm_qpn(rep));
}

/* The QP of the answer is one of another connection with that host: what was there has ended
 * unnoticed. */
static bool is_stale(struct cm_id *id, const struct cm_msg *m)
{
	struct cm_id *old;
	struct cm_out out;

	if (m->kind != CM_REP || !id->way.net || id->fsm.state != CM_REQ_SENT)
		return false;
	if (id->refused_id && m->local_id == id->refused_id)
		return true; /* it has met the REJ */
	old = hash_get(&cm.qpns, qp_key(id, m));
	if (!old || !same_host(old, id))
		return false;
	id->refused_id = m->local_id;
	if (!cm_fsm_disconnect(&old->fsm, clock_now(), &out))
		cm_talk(old, &out);
	return true;
}

/* Without memory for its entry the id is connected all the same. */
static void enter_qp(struct cm_id *id, const struct cm_msg *rep)
{
	if (id->way.net && !hash_put(&cm.qpns, qp_key(id, rep), id))
		id->qp_key = qp_key(id, rep);
}

void cm_talk_take(struct cm_id *id, const struct cm_msg *m)
{
	const struct cm_fsm before = id->fsm;
	struct cm_out out;

	if (is_stale(id, m)) {
		cm_fsm_refuse(&id->fsm, m, CM_REJ_STALE, &out);
		cm_talk(id, &out);
		return;
	}
	cm_fsm_message(&id->fsm, m, clock_now(), &out);
	if (m->kind == CM_DREP && id->fsm.state != before.state)
		cm_blame_end(id, before.state);
	if (id->fsm.refusals != before.refusals)
		cm_unwatch(&id->conn); /* whoever listens next has another */
	if (id->fsm.state != before.state &&
	    (m->kind == CM_REP || m->kind == CM_SIDR_REP || m->kind == CM_REJ)) {
		id->peer = *m;
		if (m->kind == CM_REP) {
			id->responder_resources = m->initiator_depth;
			id->initiator_depth = m->responder_resources;
			id->rnr_retry = m->rnr_retry;
			enter_qp(id, m);
		}
	}
	cm_talk(id, &out);
}

/* --- messages that came back --- */

/* What the host would have answered if it had a connection manager. */
static bool answer_of(const struct cm_msg *m, struct cm_msg *out)
{
	*out = (struct cm_msg){ .tid = m->tid, .local_id = m->remote_id, .remote_id = m->local_id };
	switch (m->kind) {
	case CM_REQ:
		out->kind = CM_REJ;
		out->reason = CM_REJ_SERVICE;
		return true;
	case CM_SIDR_REQ:
		out->kind = CM_SIDR_REP;
		out->local_id = m->local_id;
		out->reason = CM_SIDR_SERVICE;
		return true;
	case CM_REP:
		out->kind = CM_REJ;
		out->reason = CM_REJ_CONSUMER;
		return true;
	case CM_DREQ:
		out->kind = CM_DREP;
		return true;
	default:
		return false;
	}
}

/* A host is given up when a second message meets none: the first may have come too early. */
static void unreached(struct cm_id *id, int error)
{
	uint64_t now = clock_now();
	struct cm_out out;

	if (!id->unreached_at)
		id->unreached_at = now;
	if (now - id->unreached_at < UNREACHED_NS)
		return;
	cm_fsm_unreached(&id->fsm, error, &out);
	cm_talk(id, &out);
}

void cm_talk_returned(struct cm_id *id, const struct cm_msg *m, int error)
{
	struct cm_msg a;

	if (m->tid != id->fsm.sent.tid && m->qpn != CM_ASK_QPN)
		return;
	if (error != ECONNREFUSED)
		unreached(id, error);
	else if (answer_of(m, &a)) {
		id->fsm.refusals = CM_REFUSALS; /* no process is there: none is about to listen */
		cm_talk_take(id, &a);
	}
}

void cm_talk_farewell(struct cm_id *id)
{
	struct cm_out out;

	cm_fsm_destroy(&id->fsm, clock_now(), &out);
	if (out.send)
		transmit(id, &out.msg);
	else if (id->delayed && id->fsm.state == CM_DREQ_SENT)
		transmit(id, &id->fsm.sent);
}

/* --- the connection to a peer on this host --- */

int cm_talk_read(int fd, struct gsi_mad *mad, struct cm_msg *m)
{
	ssize_t n = recv(fd, mad, sizeof(*mad), MSG_DONTWAIT);

	if (n < 0 && errno == ECONNRESET) /* it closed before it read all; what it sent is there */
		n = recv(fd, mad, sizeof(*mad), MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? EAGAIN : ENOTCONN;
	if (n == 0)
		return ENOTCONN;
	if (n == 1 && *(const uint8_t *)mad == GSI_BUSY)
		return EBUSY;
	if (n != sizeof(*mad) || mad->magic != GSI_MAGIC)
		return EBADMSG;
	return cm_parse(mad->mad, MAD_LEN, m);
}

static void conn_ready(struct cm_watch *w)
{
	struct cm_id *id = container_of(w, struct cm_id, conn);
	struct gsi_mad mad;
	struct cm_msg m;
	struct gsi_hearing hearing;
	struct cm_out out;
	int err;

	gsi_way_hears(&hearing);
	err = cm_talk_read(w->fd, &mad, &m);
	if (err == EAGAIN)
		return;
	if (!err) {
		id->quick |= mad.lossy;
		cm_talk_take(id, &m);
		gsi_way_heard(cm.node, &hearing, &mad);
		return;
	}
	cm_unwatch(w);
	if (err == EBUSY && (id->fsm.state == CM_REQ_SENT || id->fsm.state == CM_SIDR_SENT))
		return; /* its timer repeats the request, by another connection */
	if (cm_fsm_outlives(&id->fsm))
		return;
	cm_blame_end(id, id->fsm.state);
	cm_fsm_death(&id->fsm, clock_now(), &out);
	cm_talk(id, &out);
}

int cm_talk_connected(struct cm_id *id)
{
	return cm_watch(&id->conn, conn_ready);
}
