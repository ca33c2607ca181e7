// SPDX-License-Identifier: MIT
/* Every call of connection management in every state of an id: what it answers is what a Linux
 * kernel answers. The ids have no queue pairs, so their events show all that there is. */
#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include "verbs/cases.h"

enum state {
	NEW,
	BOUND,
	LISTENING,
	RESOLVED,
	ROUTED,
	ASKED, /* the REQ is out */
	REQUESTED, /* of an event CONNECT_REQUEST */
	ANSWERED, /* CONNECT_RESPONSE has come */
	OPEN, /* after rdma_establish() */
	ACCEPTED, /* ESTABLISHED has come to the passive end */
	CLOSED, /* DISCONNECTED has come */
	REJECTED,
	STATES,
};

static const char *const names[STATES] = { "new",    "bound",	 "listening", "resolved",
					   "routed", "asked",	 "requested", "answered",
					   "open",   "accepted", "closed",    "rejected" };

static struct rdma_event_channel *channel, *other_channel;
static struct rdma_cm_id *listener, *active, *passive;
static struct sockaddr_in at;

/* --- the way to a state --- */

static struct sockaddr_in loop(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static struct rdma_conn_param param(void)
{
	return (struct rdma_conn_param){ .private_data = "of an end",
					 .private_data_len = 9,
					 .responder_resources = 3,
					 .initiator_depth = 2,
					 .flow_control = 1,
					 .retry_count = 5,
					 .rnr_retry_count = 6,
					 .qp_num = 77 };
}

static struct rdma_cm_event *next(enum rdma_cm_event_type type, int status,
				  const struct rdma_cm_id *id)
{
	struct rdma_cm_event *e;

	want_eq(rdma_get_cm_event(channel, &e), 0);
	want_eq(e->event, type);
	want_eq(e->status, status);
	want(e->id == id || !id);
	return e;
}

static void comes(enum rdma_cm_event_type type, int status, const struct rdma_cm_id *id)
{
	want_eq(rdma_ack_cm_event(next(type, status, id)), 0);
}

static void listen_there(void)
{
	at = loop();
	want_eq(rdma_create_id(channel, &listener, &at, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(listener, (struct sockaddr *)&at), 0);
	want_eq(rdma_listen(listener, 4), 0);
	at.sin_port = rdma_get_src_port(listener);
}

static void resolve(void)
{
	want_eq(rdma_resolve_addr(active, NULL, (struct sockaddr *)&at, 1000), 0);
	comes(RDMA_CM_EVENT_ADDR_RESOLVED, 0, active);
}

static void route(void)
{
	want_eq(rdma_resolve_route(active, 1000), 0);
	comes(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, active);
}

/* Depths as seen from here: what one end may have out, the other must answer. */
static void want_param(const struct rdma_conn_param *p, size_t room, int responder, int initiator)
{
	want_eq(p->private_data_len, room);
	want(!memcmp(p->private_data, "of an end\0\0\0", 12));
	want_eq(p->responder_resources, responder);
	want_eq(p->initiator_depth, initiator);
	want_eq(p->flow_control, 1);
	want_eq(p->qp_num, 77);
}

static void ask(void)
{
	struct rdma_conn_param p = param();
	struct rdma_cm_event *e;

	want_eq(rdma_connect(active, &p), 0);
	e = next(RDMA_CM_EVENT_CONNECT_REQUEST, 0, NULL);
	passive = e->id;
	want(e->listen_id == listener && passive != listener);
	want(passive->context == &at && passive->channel == channel && passive->verbs);
	want_param(&e->param.conn, 56, 2, 3);
	want_eq(e->param.conn.retry_count, 5);
	want_eq(e->param.conn.rnr_retry_count, 6);
	want_eq(rdma_ack_cm_event(e), 0);
}

static void answer(void)
{
	struct rdma_conn_param p = param();
	struct rdma_cm_event *e;

	want_eq(rdma_accept(passive, &p), 0);
	e = next(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, active);
	want_param(&e->param.conn, 196, 2, 3);
	want_eq(e->param.conn.rnr_retry_count, 6);
	want_eq(rdma_ack_cm_event(e), 0);
}

static void establish(void)
{
	struct rdma_cm_event *e;

	want_eq(rdma_establish(active), 0);
	e = next(RDMA_CM_EVENT_ESTABLISHED, 0, passive);
	want_eq(e->param.conn.private_data_len, 0);
	want_eq(rdma_ack_cm_event(e), 0);
}

static void end_connection(void)
{
	want_eq(rdma_disconnect(active), 0);
	comes(RDMA_CM_EVENT_DISCONNECTED, 0, passive);
	want_eq(rdma_disconnect(passive), 0);
	comes(RDMA_CM_EVENT_DISCONNECTED, 0, active);
}

static void reject(void)
{
	struct rdma_cm_event *e;

	want_eq(rdma_reject(passive, "no", 2), 0);
	e = next(RDMA_CM_EVENT_REJECTED, 28, active);
	want_eq(e->param.conn.private_data_len, 148);
	want(!memcmp(e->param.conn.private_data, "no\0", 3));
	want_eq(rdma_ack_cm_event(e), 0);
}

/* An id in that state. */
static struct rdma_cm_id *reach(enum state s)
{
	struct sockaddr_in any = loop();

	listener = passive = NULL;
	listen_there();
	want_eq(rdma_create_id(channel, &active, NULL, RDMA_PS_TCP), 0);
	if (s == BOUND)
		want_eq(rdma_bind_addr(active, (struct sockaddr *)&any), 0);
	if (s >= RESOLVED)
		resolve();
	if (s >= ROUTED)
		route();
	if (s >= ASKED)
		ask();
	if (s >= ANSWERED && s != REJECTED)
		answer();
	if (s >= OPEN && s != REJECTED)
		establish();
	if (s == CLOSED)
		end_connection();
	if (s == REJECTED)
		reject();
	return s == LISTENING ? listener : s == REQUESTED || s == ACCEPTED ? passive : active;
}

static void leave(void)
{
	want_eq(rdma_destroy_id(active), 0);
	if (passive)
		want_eq(rdma_destroy_id(passive), 0);
	want_eq(rdma_destroy_id(listener), 0);
}

/* --- the calls --- */

static int call_bind(struct rdma_cm_id *id)
{
	struct sockaddr_in any = loop();

	return rdma_bind_addr(id, (struct sockaddr *)&any);
}

/* An address of an InfiniBand port, which Linux finds on no RoCE device. */
static struct sockaddr_ib infiniband(void)
{
	struct sockaddr_ib a = { .sib_family = AF_IB };

	a.sib_addr.sib_raw[0] = 0xfe;
	a.sib_addr.sib_raw[15] = 1;
	return a;
}

static int call_bind_ib(struct rdma_cm_id *id)
{
	struct sockaddr_ib a = infiniband();

	return rdma_bind_addr(id, (struct sockaddr *)&a);
}

static int call_resolve_ib(struct rdma_cm_id *id)
{
	struct sockaddr_ib a = infiniband();

	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 1000);
}

static int call_listen(struct rdma_cm_id *id)
{
	return rdma_listen(id, 1);
}

static int call_resolve_addr(struct rdma_cm_id *id)
{
	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 1000);
}

static int call_resolve_route(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, 1000);
}

static int call_connect(struct rdma_cm_id *id)
{
	struct rdma_conn_param p = param();

	return rdma_connect(id, &p);
}

static int call_accept(struct rdma_cm_id *id)
{
	struct rdma_conn_param p = param();

	return rdma_accept(id, &p);
}

static int call_reject(struct rdma_cm_id *id)
{
	return rdma_reject(id, NULL, 0);
}

static int call_disconnect(struct rdma_cm_id *id)
{
	return rdma_disconnect(id);
}

static int call_establish(struct rdma_cm_id *id)
{
	return rdma_establish(id);
}

static int call_notify(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_COMM_EST);
}

static int call_notify_other(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_QP_FATAL);
}

static int call_rtr(struct rdma_cm_id *id)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };
	int mask;

	return rdma_init_qp_attr(id, &a, &mask);
}

static int call_rts(struct rdma_cm_id *id)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	int mask;

	return rdma_init_qp_attr(id, &a, &mask);
}

static int call_reuse(struct rdma_cm_id *id)
{
	int on = 1;

	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
}

static int call_afonly(struct rdma_cm_id *id)
{
	int on = 1;

	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on));
}

static int call_join(struct rdma_cm_id *id)
{
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef010101) };

	return rdma_join_multicast(id, (struct sockaddr *)&group, NULL);
}

static int call_migrate(struct rdma_cm_id *id)
{
	return rdma_migrate_id(id, other_channel);
}

/* --- what they answer --- */

enum { E = EINVAL, C = EISCONN, D = ENODEV };

// clang-format off
static const struct {
	const char *name;
	int (*call)(struct rdma_cm_id *id);
	int answer[STATES];
} calls[] = {
	/* new bound listening resolved routed asked requested answered open accepted closed
	 * rejected */
	{ "bind",	   call_bind,	       { 0, E, E, E, E, E, E, E, E, E, E, E } },
	{ "bind AF_IB",	   call_bind_ib,       { D, E, E, E, E, E, E, E, E, E, E, E } },
	{ "resolve AF_IB", call_resolve_ib,    { D, E, E, E, E, E, E, E, E, E, E, E } },
	{ "listen",	   call_listen,	       { 0, 0, E, E, E, E, E, E, E, E, E, E } },
	{ "resolve_addr",  call_resolve_addr,  { 0, 0, E, E, E, E, E, E, E, E, E, E } },
	{ "resolve_route", call_resolve_route, { E, E, E, 0, E, E, E, E, E, E, E, E } },
	{ "connect",	   call_connect,       { E, E, E, E, 0, E, E, E, E, E, E, E } },
	{ "accept",	   call_accept,	       { E, E, E, E, E, E, 0, E, E, E, E, E } },
	{ "reject",	   call_reject,	       { E, E, E, E, E, 0, 0, 0, E, E, E, E } },
	{ "disconnect",	   call_disconnect,    { E, E, 0, E, E, 0, 0, 0, 0, 0, 0, 0 } },
	{ "establish",	   call_establish,     { E, E, E, E, E, E, E, 0, E, E, E, E } },
	{ "notify",	   call_notify,	       { E, E, E, E, E, E, E, E, C, C, E, E } },
	{ "notify other",  call_notify_other,  { E, E, E, E, E, E, E, E, E, E, E, E } },
	{ "RTR",	   call_rtr,	       { E, 0, E, 0, 0, E, 0, 0, 0, 0, E, E } },
	{ "RTS",	   call_rts,	       { E, 0, E, 0, 0, E, 0, 0, 0, 0, E, E } },
	{ "REUSEADDR",	   call_reuse,	       { 0, 0, E, 0, 0, 0, 0, 0, 0, 0, 0, 0 } },
	{ "AFONLY",	   call_afonly,	       { 0, 0, E, E, E, E, E, E, E, E, E, E } },
	{ "join",	   call_join,	       { E, E, E, E, E, E, E, E, E, E, E, E } },
	{ "migrate",	   call_migrate,       { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 } },
};
// clang-format on

static void in_state(int state)
{
	channel = rdma_create_event_channel();
	other_channel = rdma_create_event_channel();
	want(channel && other_channel);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int expected = calls[i].answer[state], got;
		struct rdma_cm_id *id;

		id = reach((enum state)state);
		errno = 0;
		got = calls[i].call(id) ? errno : 0;
		if (got != expected)
			fail("%s of an id that is %s: errno %d, not %d", calls[i].name,
			     names[state], got, expected);
		leave();
	}
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(other_channel);
}

/* A request that cannot leave is no attempt: nothing follows, and the next one connects. */
static void connect_without_descriptors(int arg)
{
	struct pollfd p = { .events = POLLIN };
	struct rdma_cm_id *id;
	uint64_t limit;

	(void)arg;
	channel = rdma_create_event_channel();
	want(channel);
	p.fd = channel->fd;
	id = reach(ROUTED);
	limit = peer_no_descriptors();
	want_minus1(call_connect(id), EMFILE);
	peer_descriptors(limit);
	want_eq(poll(&p, 1, 0), 0);
	ask();
	answer();
	establish();
	end_connection();
	leave();
	rdma_destroy_event_channel(channel);
}

/* The passive end has a queue pair and so options of its vendor; the active end has said @vendor's.
 * librdmacm ends a connection whose REP names a vendor that is not its own. */
static void answer_of_another_vendor(int vendor)
{
	struct ibv_ece said = { .vendor_id = vendor }, heard;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1 } };

	channel = rdma_create_event_channel();
	want(channel);
	reach(ROUTED);
	if (vendor)
		want_eq(rdma_set_local_ece(active, &said), 0);
	ask();
	want_eq(rdma_create_qp(passive, NULL, &attr), 0);
	want_eq(ibv_query_ece(passive->qp, &heard), 0);
	want(heard.vendor_id && heard.vendor_id != said.vendor_id);
	want_eq(rdma_accept(passive, NULL), 0);
	comes(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, active);
	want_eq(rdma_get_remote_ece(active, &heard), 0);
	want_eq(heard.vendor_id, 0);
	want_eq(heard.options, 0);
	establish();
	end_connection();
	rdma_destroy_qp(passive);
	leave();
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	struct test_case list[STATES + 3];
	char title[STATES][32];

	for (int s = 0; s < STATES; s++) {
		snprintf(title[s], sizeof(title[s]), "in state %s", names[s]);
		list[s] = (struct test_case){ title[s], in_state, s };
	}
	list[STATES] =
		(struct test_case){ "connect without descriptors", connect_without_descriptors, 0 };
	list[STATES + 1] = (struct test_case){ "no vendor said", answer_of_another_vendor, 0 };
	list[STATES + 2] = (struct test_case){ "another vendor said", answer_of_another_vendor, 7 };
	return CASES_RUN(list);
}
