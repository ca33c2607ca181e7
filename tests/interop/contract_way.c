// SPDX-License-Identifier: MIT
/* The way to each state. */
#include "contract.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 20000 };

bool state_exists(const struct kind *k, enum state s)
{
	if (k->v6 && s == JOINED) /* Linux: ENOTSUPP */
		return false;
	if (k->sync && s == CLOSED) /* TIMEWAIT_EXIT comes when it will */
		return false;
	if (k->xrc && s < ROUTED) /* endpoints come so far */
		return s == BOUND || s == LISTENING;
	if (k->ps == RDMA_PS_UDP) /* no connection: one question, one answer */
		return s != ANSWERED && s != ACCEPTED && s != LEAVING && s != LEFT && s != CLOSED;
	return s != JOINED && !(k->has_qp && s == ANSWERED); /* the library establishes itself */
}

int take_event(struct crew *c, struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	int type;
	struct rdma_cm_event *e;

	if (poll(&p, 1, PATIENCE_MS) != 1) {
		fprintf(stderr, "contract: %s, on the way to %s: no event of the %s side\n",
			c->kind->name, state_names[c->wanted],
			ch == c->active ? "active" : "passive");
		exit(1);
	}
	if (rdma_get_cm_event(ch, &e)) { /* the library may keep it for itself */
		must(errno == EAGAIN, "rdma_get_cm_event");
		return NO_EVENT;
	}
	type = e->event;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST && !c->id[PASSIVE])
		c->id[PASSIVE] = e->id;
	if (c->tells)
		say_event(c, e);
	must(!rdma_ack_cm_event(e), "rdma_ack_cm_event");
	return type;
}

static void expect(struct crew *c, struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	int got;

	if (c->tells)
		fprintf(c->out, "\n\t%s", ch == c->active ? "active" : "passive");
	do
		got = take_event(c, ch);
	while (got == NO_EVENT);
	if (got != (int)type)
		fprintf(stderr, "contract: %s has come, not %s\n",
			rdma_event_str((enum rdma_cm_event_type)got), rdma_event_str(type));
	must(got == (int)type, "another event");
}

static struct rdma_cm_id *make_id(struct crew *c, struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	must(!rdma_create_id(ch, &id, c, c->kind->ps), "rdma_create_id");
	return id;
}

static struct rdma_cm_id *make_ep(struct crew *c, struct rdma_event_channel *ch, bool passive)
{
	union address a = own_address(c->kind->v6, passive ? 0 : listener_port(c));
	struct kind k = { .ps = c->kind->ps,
			  .type = passive ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND,
			  .v6 = c->kind->v6 };
	struct rdma_addrinfo info = ep_info(&k, &a, passive);
	struct rdma_cm_id *id;

	must(!rdma_create_ep(&id, &info, NULL, NULL), "rdma_create_ep");
	must(!rdma_migrate_id(id, ch), "rdma_migrate_id");
	id->context = c;
	return id;
}

static struct ibv_cq *common_cq(struct ibv_context *verbs)
{
	static struct ibv_cq *cq;

	if (!cq)
		cq = ibv_create_cq(verbs, 16, NULL, NULL, 0);
	must(cq, "ibv_create_cq");
	return cq;
}

void make_qp(struct crew *c, enum side side)
{
	struct rdma_cm_id *id = c->id[side];
	struct ibv_qp_init_attr attr = { .send_cq = common_cq(id->verbs),
					 .recv_cq = common_cq(id->verbs),
					 .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = c->kind->type };

	must(!rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
	if (c->tells)
		say_qp(c, id, side == ACTIVE ? "\n\tactive QP" : "\n\tpassive QP");
}

static void bind_active(struct crew *c)
{
	union address a = own_address(c->kind->v6, 0);

	must(!rdma_bind_addr(c->id[ACTIVE], &a.sa), "rdma_bind_addr");
}

static void listen_there(struct crew *c)
{
	union address a = own_address(c->kind->v6, 0);

	if (c->kind->xrc) {
		c->id[LISTENER] = make_ep(c, c->passive, true);
	} else {
		c->id[LISTENER] = make_id(c, c->passive);
		must(!rdma_bind_addr(c->id[LISTENER], &a.sa), "rdma_bind_addr");
	}
	must(!rdma_listen(c->id[LISTENER], 4), "rdma_listen");
}

static void resolve(struct crew *c)
{
	union address a = own_address(c->kind->v6, listener_port(c));

	must(!rdma_resolve_addr(c->id[ACTIVE], NULL, &a.sa, 2000), "rdma_resolve_addr");
	expect(c, c->active, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void route(struct crew *c)
{
	must(!rdma_resolve_route(c->id[ACTIVE], 2000), "rdma_resolve_route");
	expect(c, c->active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (c->kind->has_qp)
		make_qp(c, ACTIVE);
}

static void ask(struct crew *c)
{
	struct rdma_conn_param p = usual_param(c, c->id[ACTIVE]);

	must(!rdma_connect(c->id[ACTIVE], &p), "rdma_connect");
	expect(c, c->passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (c->kind->has_qp)
		make_qp(c, PASSIVE);
}

static void accept_it(struct crew *c)
{
	struct rdma_conn_param p = usual_param(c, c->id[PASSIVE]);

	must(!rdma_accept(c->id[PASSIVE], &p), "rdma_accept");
}

static void establish(struct crew *c)
{
	if (c->kind->ps == RDMA_PS_UDP || c->kind->has_qp) {
		expect(c, c->active, RDMA_CM_EVENT_ESTABLISHED);
	} else {
		expect(c, c->active, RDMA_CM_EVENT_CONNECT_RESPONSE);
		must(!rdma_establish(c->id[ACTIVE]), "rdma_establish");
	}
	if (c->kind->ps != RDMA_PS_UDP)
		expect(c, c->passive, RDMA_CM_EVENT_ESTABLISHED);
}

static void disconnect(struct crew *c, enum state s)
{
	must(!rdma_disconnect(c->id[ACTIVE]), "rdma_disconnect");
	if (s == LEAVING)
		return;
	expect(c, c->passive, RDMA_CM_EVENT_DISCONNECTED);
	if (s == LEFT)
		return;
	must(!rdma_disconnect(c->id[PASSIVE]), "rdma_disconnect");
	expect(c, c->active, RDMA_CM_EVENT_DISCONNECTED);
}

static void reject(struct crew *c, enum state s)
{
	must(!rdma_reject(c->id[PASSIVE], "no", 2), "rdma_reject");
	if (s == REJECTED)
		expect(c, c->active,
		       c->kind->ps == RDMA_PS_UDP ? RDMA_CM_EVENT_UNREACHABLE
						  : RDMA_CM_EVENT_REJECTED);
}

static void join(struct crew *c)
{
	union address group = group_address(c->kind->v6);

	if (c->kind->has_qp)
		make_qp(c, ACTIVE);
	must(!rdma_join_multicast(c->id[ACTIVE], &group.sa, c), "rdma_join_multicast");
	expect(c, c->active, RDMA_CM_EVENT_MULTICAST_JOIN);
}

static enum side subject_of(enum state s)
{
	switch (s) {
	case LISTENING:
		return LISTENER;
	case REQUESTED:
	case ACCEPTING:
	case ACCEPTED:
	case LEFT:
	case REJECTING:
		return PASSIVE;
	default:
		return ACTIVE;
	}
}

static void connect_to(struct crew *c, enum state s)
{
	ask(c);
	if (s == REJECTING || s == REJECTED)
		reject(c, s);
	else if (s > REQUESTED)
		accept_it(c);
	if (s == ANSWERED)
		expect(c, c->active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	else if (s > ANSWERED && s < REJECTING)
		establish(c);
	if (s == LEAVING || s == LEFT || s == CLOSED)
		disconnect(c, s);
}

struct rdma_event_channel *make_channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	must(ch != NULL, "rdma_create_event_channel");
	never_wait(ch);
	return ch;
}

void never_wait(struct rdma_event_channel *ch)
{
	must(!fcntl(ch->fd, F_SETFL, O_NONBLOCK), "fcntl");
}

/* The active end, up to ROUTED. */
static void begin(struct crew *c, enum state s)
{
	if (c->kind->xrc) {
		c->id[ACTIVE] = make_ep(c, c->active, s < ROUTED);
		return;
	}
	c->id[ACTIVE] = make_id(c, c->active);
	if (s == BOUND)
		bind_active(c);
	if (s >= RESOLVED)
		resolve(c);
	if (s >= ROUTED && s != JOINED)
		route(c);
}

void reach(struct crew *c, enum state s)
{
	c->wanted = s;
	c->active = make_channel();
	c->passive = make_channel();
	c->other = make_channel();
	listen_there(c);
	begin(c, s);
	c->subject = subject_of(s);
	if (s == JOINED)
		join(c);
	else if (s >= ASKED)
		connect_to(c, s);
}
