// SPDX-License-Identifier: MIT
#include <errno.h>
#include <string.h>
#include "cm/cm_addr.h"
#include "cm/cm_call.h"
#include "cm/cm_event.h"
#include "cm/cm_talk.h"
#include "net/gid.h"
#include "obs/explain.h"
#include "util/clock.h"

enum { PKEY = 0xffff, REJ_ROOM = 148, LID_NONE = 0xffff, SEVEN = 7 };

/* --- REQ and SIDR_REQ --- */

static int put_data(struct cm_msg *m, size_t skip, const void *data, size_t len)
{
	if (len > cm_private_room(m->kind) - skip)
		return refuse(EINVAL, "%zu B of private data do not fit the %s", len,
			      cm_name(m->kind));
	if (len)
		memcpy(m->private_data + skip, data, len);
	m->private_len = (uint8_t)(skip + len);
	return 0;
}

static void put_header(const struct cm_id *id, struct cm_msg *m)
{
	struct cm_ip ip = { .port = cm_addr_port(&id->src),
			    .version = id->src.ss_family == AF_INET ? 4 : 6 };

	cm_addr_ip(&id->src, ip.from);
	cm_addr_ip(&id->dst, ip.to);
	cm_ip_build(&ip, m->private_data);
	m->service_id = (uint64_t)id->ps << 16 | cm_addr_port(&id->dst);
	m->pkey = PKEY;
}

static void put_path(const struct cm_id *id, struct cm_msg *m)
{
	struct cm_path *p = &m->path[0];

	p->local_lid = p->remote_lid = LID_NONE;
	memcpy(p->local_gid, id->way.sgid.raw, 16);
	memcpy(p->remote_gid, id->way.dgid.raw, 16);
	p->flow_label = id->way.flow_label;
	p->rate = id->way.rate ? id->way.rate : IBV_RATE_100_GBPS;
	p->sl = id->way.sl;
	p->tclass = id->way.tclass;
	p->hop_limit = id->way.hop_limit;
	p->ack_timeout = id->way.ack_timeout;
	m->path_mtu = id->way.mtu;
}

static uint8_t at_most_7(uint8_t n)
{
	return n < SEVEN ? n : SEVEN;
}

static void put_transport(const struct cm_id *id, struct cm_msg *m)
{
	switch (id->qp_type) {
	case IBV_QPT_UC:
		m->transport = 1;
		break;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		m->transport = 3;
		m->ext_transport = 1;
		break;
	default:
		break;
	}
}

static void put_connection(struct cm_id *id, const struct cm_param *p, struct cm_msg *m)
{
	put_transport(id, m);
	put_path(id, m);
	m->qpn = p->qpn;
	m->psn = id->psn;
	m->vendor_id = p->ece_vendor;
	m->modifier = p->ece_options;
	m->retry_count = at_most_7(p->retry_count);
	m->rnr_retry = at_most_7(p->rnr_retry_count);
	m->responder_resources = p->responder_resources;
	m->initiator_depth = p->initiator_depth;
	m->flow_control = p->flow_control != 0;
	m->srq = p->srq != 0;
	id->responder_resources = p->responder_resources;
	id->initiator_depth = p->initiator_depth;
	id->retry_count = m->retry_count;
	id->rnr_retry = m->rnr_retry;
	if (id->qp_type == IBV_QPT_XRC_SEND) { /* no request goes the other way; as Linux */
		m->responder_resources = m->retry_count = m->rnr_retry = 0;
		m->srq = 0;
	}
}

/* Its request could not leave: nothing follows, and the next one of that host may. */
static void not_connected(struct cm_id *id)
{
	static const struct cm_out nothing = { .event = CM_NO_EVENT };

	id->phase = PHASE_ROUTE;
	cm_unwatch(&id->conn);
	cm_talk(id, &nothing);
}

static int connect_locked(struct cm_id *id, const struct cm_param *p)
{
	const struct cm_fsm before = id->fsm;
	struct cm_msg m = { .kind = id->qp_type == IBV_QPT_UD ? CM_SIDR_REQ : CM_REQ };
	struct cm_out out;
	int err;

	if (id->phase != PHASE_ROUTE)
		return refuse(EINVAL,
			      "rdma_connect: the id has no route yet, or was used before; call "
			      "rdma_resolve_route first, and make an id for each connection");
	err = put_data(&m, CM_IP_LEN, p->data, p->data_len);
	if (err)
		return err;
	put_header(id, &m);
	if (m.kind == CM_REQ)
		put_connection(id, p, &m);
	err = cm_fsm_connect(&id->fsm, &m, clock_now(), &out);
	if (err)
		return refuse(
			err,
			"rdma_connect: the id was used before; make an id for each connection");
	id->phase = PHASE_CONNECT;
	err = cm_talk(id, &out);
	if (err) {
		id->fsm = before;
		not_connected(id);
		return refuse(err, "rdma_connect: the request could not be sent; the id may "
				   "connect again");
	}
	return 0;
}

int cm_call_connect(struct cm_id *id, const struct cm_param *p)
{
	int err = cm_enter(id, "rdma_connect");

	if (err)
		return err;
	err = connect_locked(id, p);
	cm_leave();
	return err;
}

/* --- REP and SIDR_REP --- */

static void answer_with(struct cm_id *id, const struct cm_param *p, struct cm_msg *m)
{
	m->kind = id->fsm.udp ? CM_SIDR_REP : CM_REP;
	m->qpn = p->qpn;
	m->vendor_id = p->ece_vendor;
	m->modifier = p->ece_options;
	if (id->fsm.udp) {
		m->service_id = id->peer.service_id;
		m->qkey = p->qkey;
		return;
	}
	m->psn = id->psn;
	m->rnr_retry = at_most_7(p->rnr_retry_count);
	m->responder_resources = p->responder_resources;
	m->initiator_depth = p->initiator_depth;
	m->flow_control = p->flow_control != 0;
	m->srq = p->srq != 0;
	if (id->qp_type == IBV_QPT_XRC_RECV) {
		m->local_eecn = p->qpn;
		m->srq = 1;
		m->initiator_depth = 0; /* it asks nothing; as Linux */
		m->flow_control = 0;
	}
	id->responder_resources = p->responder_resources;
	id->initiator_depth = p->initiator_depth;
}

static int accept_locked(struct cm_id *id, const struct cm_param *p)
{
	struct cm_msg m = { 0 };
	struct cm_out out;
	int err;

	answer_with(id, p, &m);
	err = put_data(&m, 0, p->data, p->data_len);
	if (err)
		return err;
	err = cm_fsm_accept(&id->fsm, &m, clock_now(), &out);
	if (err)
		return refuse(err, "rdma_accept: there is no request to accept, or its sender has "
				   "gone; take the id of a CONNECT_REQUEST");
	id->muted = false;
	return cm_talk(id, &out);
}

int cm_call_accept(struct cm_id *id, const struct cm_param *p)
{
	int err = cm_enter(id, "rdma_accept");

	if (err)
		return err;
	err = accept_locked(id, p);
	cm_leave();
	return err;
}

/* --- the rest --- */

int cm_call_reject(struct cm_id *id, const void *data, size_t len, bool ece)
{
	struct cm_msg m = { .kind = CM_REJ, .reason = ece ? CM_REJ_ECE : CM_REJ_CONSUMER };
	struct cm_out out;
	int err = cm_enter(id, "rdma_reject");

	if (err)
		return err;
	if (id->fsm.udp) {
		m.kind = CM_SIDR_REP;
		m.reason = 2;
	}
	err = put_data(&m, 0, data, len);
	if (!err) {
		err = cm_fsm_reject(&id->fsm, &m, &out);
		if (err)
			refuse(err, "rdma_reject: there is nothing to reject in this state; take "
				    "the id of a "
				    "CONNECT_REQUEST");
	}
	if (!err)
		err = cm_talk(id, &out);
	cm_leave();
	return err;
}

int cm_call_establish(struct cm_id *id)
{
	struct cm_out out;
	int err = cm_enter(id, "rdma_establish");

	if (err)
		return err;
	err = cm_fsm_establish(&id->fsm, &out);
	if (err)
		refuse(err,
		       "rdma_establish: the id has no CONNECT_RESPONSE to answer; wait for that "
		       "event first");
	else
		err = cm_talk(id, &out);
	cm_leave();
	return err;
}

int cm_call_disconnect(struct cm_id *id, bool *follows)
{
	struct cm_out out;
	int err = cm_enter(id, "rdma_disconnect");

	*follows = false;
	if (err)
		return err;
	if (id->phase == PHASE_LISTEN) {
		cm_leave();
		return 0; /* as Linux: there is nothing to end */
	}
	err = cm_fsm_disconnect(&id->fsm, clock_now(), &out);
	if (err)
		refuse(err,
		       "rdma_disconnect: the id was never connected; wait for ESTABLISHED first");
	else
		cm_talk(id, &out); /* a peer that is gone is no error */
	*follows = !err && (id->fsm.state == CM_DREQ_SENT || cm_event_waits(id));
	cm_leave();
	return err;
}

int cm_call_notify(struct cm_id *id, enum ibv_event_type event)
{
	struct cm_out out;
	int err = cm_enter(id, "rdma_notify");

	if (err)
		return err;
	err = event == IBV_EVENT_COMM_EST ? cm_fsm_notify(&id->fsm, &out) : EINVAL;
	if (err)
		refuse(err, "rdma_notify: the event does not change this connection; it is for "
			    "IBV_EVENT_COMM_EST before ESTABLISHED");
	else
		err = cm_talk(id, &out);
	cm_leave();
	return err;
}
