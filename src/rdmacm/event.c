// SPDX-License-Identifier: MIT
/* Events of channels, and the work that they ask for. */
#include <stdlib.h>
#include <string.h>
#include "rdmacm/id.h"
#include "rdmacm/newer.h"

/* --- what an event shows --- */

static void show_conn(struct event *e, const struct cm_param *p)
{
	struct rdma_conn_param *c = &e->event.param.conn;

	c->private_data_len = p->data_len;
	if (p->data_len) {
		memcpy(e->data, p->data, p->data_len);
		c->private_data = e->data;
	}
	c->responder_resources = p->responder_resources;
	c->initiator_depth = p->initiator_depth;
	c->flow_control = p->flow_control;
	c->retry_count = p->retry_count;
	c->rnr_retry_count = p->rnr_retry_count;
	c->srq = p->srq;
	c->qp_num = p->qpn;
}

static void show_ud(struct event *e, const struct cm_param *p)
{
	struct rdma_ud_param *u = &e->event.param.ud;

	u->private_data_len = p->data_len;
	if (p->data_len) {
		memcpy(e->data, p->data, p->data_len);
		u->private_data = e->data;
	}
	u->ah_attr = p->ah;
	u->qp_num = p->qpn;
	u->qkey = p->qkey;
}

static void show(struct event *e, const struct cm_news *n)
{
	if (n->event == EVENT_USER)
		memcpy(&e->event.param, &n->arg, sizeof(n->arg));
	else if (e->event.id->qp_type == IBV_QPT_UD)
		show_ud(e, &n->param);
	else
		show_conn(e, &n->param);
	if (n->join) {
		e->group = n->join;
		e->event.param.ud.private_data = e->group->context;
	}
}

/* --- the work --- */

static int on_addr(struct id *i, struct rdma_cm_event *e)
{
	int err = id_look(i);

	if (err) {
		e->event = RDMA_CM_EVENT_ADDR_ERROR;
		e->status = -err;
	}
	return 0;
}

static int on_route(struct id *i, struct rdma_cm_event *e)
{
	int err = id_look(i);

	if (err) {
		e->event = RDMA_CM_EVENT_ROUTE_ERROR;
		e->status = -err;
	}
	return 0;
}

/* The id of a request, on the channel that it came from: its listener's may be another one by now.
 * An errno: it cannot be made, and the peer is told so. */
static int on_request(struct channel *c, struct event *e, const struct cm_news *n)
{
	struct id *listener = n->listener;
	struct id *i = id_alloc(c->own == listener ? NULL : &c->ch, listener->id.context,
				listener->id.ps, listener->id.qp_type);
	uint32_t fetched;
	int err = i ? id_own_channel(i) : ENOMEM;

	if (!err) {
		i->cm = n->id;
		err = softhca_cm()->set_owner(i->cm, i, ((struct channel *)i->id.channel)->cm);
	}
	err = err ? err : id_look(i);
	if (err) {
		softhca_cm()->id_destroy(n->id, &fetched);
		softhca_cm()->id_release(n->id);
		if (i)
			id_free(i);
		return err;
	}
	i->initiator = n->param.initiator_depth;
	i->responder = n->param.responder_resources;
	i->remote_ece.vendor_id = n->param.ece_vendor;
	i->remote_ece.options = n->param.ece_options;
	e->made = i;
	e->event.id = &i->id;
	e->event.listen_id = &listener->id;
	return 0;
}

static int finish_connect(struct id *i, const struct cm_news *n)
{
	int err;

	i->remote_ece.vendor_id = n->param.ece_vendor;
	i->remote_ece.options = n->param.ece_options;
	err = ece_take(i, false);
	err = err ? err : qp_to_rtr(i, n->param.responder_resources);
	err = err ? err : qp_to_rts(i, n->param.initiator_depth);
	return err ? err : softhca_cm()->establish(i->cm);
}

static int on_response(struct id *i, struct rdma_cm_event *e, const struct cm_news *n)
{
	int err;

	i->remote_ece.vendor_id = n->param.ece_vendor;
	i->remote_ece.options = n->param.ece_options;
	if (!i->id.qp)
		return 0;
	err = finish_connect(i, n);
	if (!err) {
		e->event = RDMA_CM_EVENT_ESTABLISHED;
		return 0;
	}
	qp_to_err(i);
	softhca_cm()->reject(i->cm, NULL, 0, false);
	i->failed = true;
	e->event = RDMA_CM_EVENT_CONNECT_ERROR;
	e->status = -err;
	return 0;
}

/* EAGAIN: the program does not see it. */
static int on_end(struct id *i, const struct rdma_cm_event *e)
{
	if (i->failed)
		return EAGAIN;
	if (e->event == RDMA_CM_EVENT_REJECTED)
		qp_to_err(i);
	return 0;
}

/* Attaches the QP. */
static int on_join(struct event *event)
{
	struct rdma_cm_event *e = &event->event;
	struct group *g = event->group;
	struct id *i = event->counted;
	int err = 0;

	g->gid = e->param.ud.ah_attr.grh.dgid;
	g->lid = e->param.ud.ah_attr.dlid;
	if (i->id.qp && !g->send_only) {
		err = ibv_attach_mcast(i->id.qp, &g->gid, g->lid);
		g->attached = !err;
	}
	if (err) {
		e->event = RDMA_CM_EVENT_MULTICAST_ERROR;
		e->status = -err;
	}
	return 0;
}

static int work(struct event *e, const struct cm_news *n)
{
	struct id *i = e->counted;

	switch (n->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return on_addr(i, &e->event);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return on_route(i, &e->event);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return on_response(i, &e->event, n);
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED:
		return on_end(i, &e->event);
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		return on_join(e);
	default:
		return 0;
	}
}

/* EAGAIN: it was none for the program. */
static int next(struct channel *c, struct event *e)
{
	struct cm_news n;
	int err;

	memset(e, 0, sizeof(*e));
	err = softhca_cm()->next_event(c->cm, &n);
	if (err)
		return err;
	e->event.event = (enum rdma_cm_event_type)n.event;
	e->event.status = n.status;
	e->counted = n.listener ? n.listener : n.owner;
	e->event.id = &e->counted->id;
	if (n.listener)
		err = on_request(c, e, &n) ? EAGAIN : 0;
	else {
		show(e, &n);
		err = work(e, &n) ? EAGAIN : 0;
	}
	if (n.listener && !err)
		show(e, &n);
	if (err)
		id_ack(e->counted, e->group);
	return err ? ERESTART : 0;
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct event *e;
	int err;

	if (!channel || !event)
		return minus1_errno(EINVAL);
	e = malloc(sizeof(*e));
	if (!e)
		return minus1_errno(ENOMEM);
	do
		err = next((struct channel *)channel, e);
	while (err == ERESTART);
	if (err) {
		free(e);
		return minus1_errno(err);
	}
	*event = &e->event;
	return 0;
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct event *e = (struct event *)event;

	if (!event)
		return minus1_errno(EINVAL);
	id_ack(e->counted, e->group);
	free(e);
	return 0;
}

EXPORT int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			       uint64_t arg)
{
	if (!id)
		return minus1_errno(
			softhca_refuse(EINVAL, "rdma_write_cm_event: id is NULL; give one"));
	if ((int)event != EVENT_USER)
		return minus1_errno(softhca_refuse(
			EINVAL,
			"rdma_write_cm_event: event %d; a program's own is RDMA_CM_EVENT_USER (%d)",
			(int)event, EVENT_USER));
	return minus1_errno(softhca_cm()->write_event(to_id(id)->cm, event, status, arg));
}
