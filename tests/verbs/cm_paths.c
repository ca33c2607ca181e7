// SPDX-License-Identifier: MIT
/* Paths that a program gives instead of having one resolved: RDMA_OPTION_IB_PATH, the route of an
 * endpoint, RDMA_ROUTE of a socket. What they say goes into the request and the attributes of queue
 * pairs; what cannot be of the id's two ends is refused. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <string.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/said.h"

#define SAYS(...) said_want(SAID_NEAR, __VA_ARGS__)

enum {
	FLAGS = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
	EXACT = 2 << 6, /* the selector of a value */
	FLOW = 0x12345,
	HOPS = 7,
	TCLASS = 0x40,
	SL = 5,
	LIFE = 9,
	QPN = 77
};

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *id;
static struct sockaddr_in at;

static struct rdma_cm_event *next(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	want_eq(rdma_get_cm_event(channel, &e), 0);
	want_eq(e->event, type);
	want_eq(e->status, 0);
	return e;
}

static void comes(enum rdma_cm_event_type type)
{
	want_eq(rdma_ack_cm_event(next(type)), 0);
}

/* An id whose address is resolved, to a port that is listened to. */
static void begin(void)
{
	at = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	said_begin();
	channel = rdma_create_event_channel();
	want(channel);
	want_eq(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(listener, (struct sockaddr *)&at), 0);
	want_eq(rdma_listen(listener, 4), 0);
	at.sin_port = rdma_get_src_port(listener);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 1000), 0);
	comes(RDMA_CM_EVENT_ADDR_RESOLVED);
}

/* Between the ends of the id. */
static struct ibv_path_data path(void)
{
	const struct rdma_ib_addr *ends = &id->route.addr.addr.ibaddr;

	return (struct ibv_path_data){ .flags = FLAGS,
				       .path = { .sgid = ends->sgid,
						 .dgid = ends->dgid,
						 .flowlabel_hoplimit = htobe32(FLOW << 8 | HOPS),
						 .tclass = TCLASS,
						 .reversible_numpath = 0x81,
						 .pkey = htobe16(0xffff),
						 .qosclass_sl = htobe16(SL),
						 .mtu = EXACT | IBV_MTU_256,
						 .rate = EXACT | IBV_RATE_20_GBPS,
						 .packetlifetime = EXACT | LIFE } };
}

static int set(const void *paths, size_t len)
{
	return rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, (void *)paths, len);
}

static void is_shown_by(const struct rdma_cm_id *i)
{
	const struct ibv_sa_path_rec *p = i->route.path_rec;

	want_eq(i->route.num_paths, 1);
	want(!memcmp(&p->sgid, &i->route.addr.addr.ibaddr.sgid, 16));
	want(!memcmp(&p->dgid, &i->route.addr.addr.ibaddr.dgid, 16));
	want_eq(be32toh(p->flow_label), FLOW);
	want_eq(p->hop_limit, HOPS);
	want_eq(p->traffic_class, TCLASS);
	want_eq(p->sl, SL);
	want_eq(p->mtu, IBV_MTU_256);
	want_eq(p->rate, IBV_RATE_20_GBPS);
	want_eq(p->packet_life_time, LIFE);
}

/* Of either end of the connection: Linux has each field but the hop limit of a request. */
static void moves_by(struct rdma_cm_id *i)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR }, rts = { .qp_state = IBV_QPS_RTS };
	int mask;

	want_eq(rdma_init_qp_attr(i, &rtr, &mask), 0);
	want_eq(rtr.path_mtu, IBV_MTU_256);
	want_eq(rtr.ah_attr.sl, SL);
	want_eq(rtr.ah_attr.grh.flow_label, FLOW);
	want_eq(rtr.ah_attr.grh.traffic_class, TCLASS);
	if (i == id) {
		want_eq(rtr.ah_attr.grh.hop_limit, HOPS);
		want_eq(rtr.ah_attr.static_rate, IBV_RATE_20_GBPS);
	}
	want_eq(rdma_init_qp_attr(i, &rts, &mask), 0);
	want_eq(rts.timeout, LIFE + 2); /* one more for each end's delay */
}

static void a_path_is_that_of_the_connection(int arg)
{
	struct rdma_conn_param p = { .qp_num = QPN };
	struct ibv_path_data d;
	struct rdma_cm_event *e;
	struct rdma_cm_id *passive;

	(void)arg;
	begin();
	d = path();
	want_eq(set(&d, sizeof(d)), 0);
	e = next(RDMA_CM_EVENT_ROUTE_RESOLVED);
	want(e->id == id);
	want_eq(rdma_ack_cm_event(e), 0);
	is_shown_by(id);
	want_eq(rdma_connect(id, &p), 0);
	e = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = e->id;
	want_eq(rdma_ack_cm_event(e), 0);
	want_eq(passive->route.path_rec->packet_life_time, LIFE);
	want_eq(rdma_accept(passive, &p), 0);
	comes(RDMA_CM_EVENT_CONNECT_RESPONSE);
	moves_by(id);
	moves_by(passive);
	want_eq(rdma_establish(id), 0);
	comes(RDMA_CM_EVENT_ESTABLISHED);
}

/* A life time of 0 is one, and the longest one's timeout is the longest. */
static void its_packet_life_time(int life)
{
	struct ibv_path_data d;

	begin();
	d = path();
	d.path.packetlifetime = (uint8_t)life;
	want_eq(set(&d, sizeof(d)), 0);
	comes(RDMA_CM_EVENT_ROUTE_RESOLVED);
	want_eq(id->route.path_rec->packet_life_time, life < 31 ? life : 30);
}

static void of_several_the_first_for_both_directions_counts(int arg)
{
	char any[3 * sizeof(struct ibv_path_data) + 1];
	struct ibv_path_data d[3];

	(void)arg;
	begin();
	for (int i = 0; i < 3; i++)
		d[i] = path();
	d[0].flags = FLAGS | IBV_PATH_FLAG_ALTERNATE;
	d[0].path.sgid.raw[15] ^= 1;
	d[2].path.sgid.raw[15] ^= 1;
	memcpy(any + 1, d, sizeof(d));
	want_eq(set(any + 1, sizeof(d)), 0); /* wherever it stands in memory */
	comes(RDMA_CM_EVENT_ROUTE_RESOLVED);
	is_shown_by(id);
}

/* --- refused --- */

static void no_path(int arg)
{
	struct ibv_path_data d;

	(void)arg;
	begin();
	d = path();
	want_minus1(set(&d, sizeof(d) - 1), EINVAL);
	SAYS("rdma_set_option: 71 B for RDMA_OPTION_IB_PATH; give an array of struct "
	     "ibv_path_data, of 72 B each");
	want_minus1(set(&d, 0), EINVAL);
	SAYS("rdma_set_option: none of 0 paths has the flags 0x2b (GMP, PRIMARY, BIDIRECTIONAL); "
	     "set exactly these");
	d.flags = IBV_PATH_FLAG_PRIMARY;
	want_minus1(set(&d, sizeof(d)), EINVAL);
	SAYS("rdma_set_option: none of 1 paths has the flags 0x2b (GMP, PRIMARY, BIDIRECTIONAL); "
	     "set exactly these");
	want_minus1(rdma_set_option(id, RDMA_OPTION_IB, 77, &d, sizeof(d)), ENOSYS);
}

static void another_end(int arg)
{
	struct ibv_path_data d;

	(void)arg;
	begin();
	d = path();
	inet_pton(AF_INET6, "::ffff:192.0.2.7", &d.path.sgid);
	want_minus1(set(&d, sizeof(d)), EINVAL);
	SAYS("rdma_set_option: the path's sgid is that of 192.0.2.7, the id's is that of "
	     "127.0.0.1; give the id's (route.addr.addr.ibaddr)");
	d = path();
	inet_pton(AF_INET6, "2001:db8::7", &d.path.dgid);
	want_minus1(set(&d, sizeof(d)), EINVAL);
	SAYS("rdma_set_option: the path's dgid is that of 2001:db8::7, the id's is that of "
	     "127.0.0.1; give the id's (route.addr.addr.ibaddr)");
}

static void what_the_port_cannot(int arg)
{
	struct ibv_port_attr port;
	struct ibv_path_data d;

	(void)arg;
	begin();
	want_eq(ibv_query_port(id->verbs, 1, &port), 0);
	d = path();
	d.path.pkey = htobe16(0x8001);
	want_minus1(set(&d, sizeof(d)), EINVAL);
	SAYS("rdma_set_option: the path's pkey is 0x8001; a RoCE port has 0xffff alone");
	d = path();
	d.path.mtu = EXACT;
	want_minus1(set(&d, sizeof(d)), EINVAL);
	SAYS("rdma_set_option: the path's mtu is 0; give one from 1 to the port's active_mtu, %u",
	     port.active_mtu);
	d.path.mtu = (uint8_t)(EXACT | (port.active_mtu + 1));
	want_minus1(set(&d, sizeof(d)), EINVAL);
	SAYS("rdma_set_option: the path's mtu is %u; give one from 1 to the port's active_mtu, %u",
	     port.active_mtu + 1, port.active_mtu);
	/* nothing has happened, and no event is there */
	want_eq(rdma_resolve_route(id, 1000), 0);
	comes(RDMA_CM_EVENT_ROUTE_RESOLVED);
	want_eq(id->route.path_rec->mtu, port.active_mtu);
	want_eq(id->route.path_rec->sl, 0);
}

static void in_another_state(int arg)
{
	struct rdma_cm_id *resolved;
	struct ibv_path_data d;

	(void)arg;
	begin();
	d = path();
	resolved = id;
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	want_minus1(set(&d, sizeof(d)), EINVAL);
	SAYS("rdma_set_option: RDMA_OPTION_IB_PATH needs a resolved address, and no route yet; "
	     "call rdma_resolve_addr and wait for ADDR_RESOLVED");
	at.sin_port = 0;
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	want_minus1(set(&d, sizeof(d)), EINVAL);
	id = resolved;
	want_eq(set(&d, sizeof(d)), 0);
	want_minus1(set(&d, sizeof(d)), EINVAL);
	want_minus1(rdma_resolve_route(id, 1000), EINVAL);
	comes(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* --- endpoints, sockets --- */

static int endpoint(void *route, size_t len, struct rdma_cm_id **out)
{
	struct rdma_addrinfo a = { .ai_family = AF_INET,
				   .ai_qp_type = IBV_QPT_RC,
				   .ai_port_space = RDMA_PS_TCP,
				   .ai_dst_addr = (struct sockaddr *)&at,
				   .ai_dst_len = sizeof(at),
				   .ai_route = route,
				   .ai_route_len = len };

	return rdma_create_ep(out, &a, NULL, NULL);
}

static void the_route_of_an_endpoint(int arg)
{
	struct ibv_path_data d;
	struct rdma_cm_id *ep;

	(void)arg;
	begin();
	d = path();
	want_eq(endpoint(&d, sizeof(d), &ep), 0);
	want_eq(ep->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	is_shown_by(ep);
	rdma_destroy_ep(ep);
	d.path.dgid.raw[15] ^= 2;
	want_minus1(endpoint(&d, sizeof(d), &ep), EINVAL);
	want_minus1(endpoint(NULL, sizeof(d), &ep), EFAULT);
}

static void *take_one(void *listening)
{
	int s = raccept(*(int *)listening, NULL, NULL);

	want(s >= 0);
	want_eq(rsend(s, "x", 1, 0), 1);
	return NULL;
}

static void the_route_of_a_socket(int arg)
{
	int listening = rsocket(AF_INET, SOCK_STREAM, 0), s = rsocket(AF_INET, SOCK_STREAM, 0);
	struct ibv_path_data d, bad;
	socklen_t len = sizeof(at);
	pthread_t server;
	char byte;

	(void)arg;
	begin();
	d = bad = path();
	at.sin_port = 0;
	want_eq(rbind(listening, (struct sockaddr *)&at, sizeof(at)), 0);
	want_eq(rgetsockname(listening, (struct sockaddr *)&at, &len), 0);
	want_eq(rlisten(listening, 1), 0);
	bad.path.sgid.raw[15] ^= 2;
	want_eq(rsetsockopt(s, SOL_RDMA, RDMA_ROUTE, &bad, sizeof(bad)), 0);
	want_minus1(rconnect(s, (struct sockaddr *)&at, sizeof(at)), EINVAL);
	want_eq(rclose(s), 0);
	s = rsocket(AF_INET, SOCK_STREAM, 0);
	want_eq(pthread_create(&server, NULL, take_one, &listening), 0);
	want_eq(rsetsockopt(s, SOL_RDMA, RDMA_ROUTE, &d, sizeof(d)), 0);
	want_eq(rconnect(s, (struct sockaddr *)&at, sizeof(at)), 0);
	want_eq(rrecv(s, &byte, 1, 0), 1);
	want_eq(byte, 'x');
	want_eq(pthread_join(server, NULL), 0);
}

static const struct test_case cases[] = {
	CASE(a_path_is_that_of_the_connection),
	CASE_ARG(its_packet_life_time, 0),
	CASE_ARG(its_packet_life_time, 30),
	CASE_ARG(its_packet_life_time, 31),
	CASE(of_several_the_first_for_both_directions_counts),
	CASE(no_path),
	CASE(another_end),
	CASE(what_the_port_cannot),
	CASE(in_another_state),
	CASE(the_route_of_an_endpoint),
	CASE(the_route_of_a_socket),
};

int main(void)
{
	return CASES_RUN(cases);
}
