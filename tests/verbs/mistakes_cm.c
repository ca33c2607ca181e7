// SPDX-License-Identifier: MIT
/* Mistakes explained: calls of librdmacm in the wrong order, or with the wrong addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include "verbs/cases.h"
#include "verbs/said.h"

#define SAYS(...) said_want(SAID_NEAR, __VA_ARGS__)

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static void begin(int arg)
{
	(void)arg;
	said_begin();
	channel = rdma_create_event_channel();
	want(channel);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
}

static struct sockaddr_in at(const char *address, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	want_eq(inet_pton(AF_INET, address, &a.sin_addr), 1);
	return a;
}

static int bind_to(const char *address, uint16_t port)
{
	struct sockaddr_in a = at(address, port);

	return rdma_bind_addr(id, (struct sockaddr *)&a);
}

static void connect_without_a_route(int arg)
{
	struct rdma_conn_param p = { 0 };

	begin(arg);
	want_minus1(rdma_connect(id, &p), EINVAL);
	SAYS("rdma_connect: the id has no route yet, or was used before; call rdma_resolve_route "
	     "first, and make an id for each connection");
}

static void accept_without_a_request(int arg)
{
	struct rdma_conn_param p = { 0 };

	begin(arg);
	want_eq(bind_to("127.0.0.1", 0), 0);
	want_minus1(rdma_accept(id, &p), EINVAL);
	SAYS("rdma_accept: there is no request to accept, or its sender has gone; take the id of a "
	     "CONNECT_REQUEST");
}

static void reject_nothing(int arg)
{
	begin(arg);
	want_eq(bind_to("127.0.0.1", 0), 0);
	want_minus1(rdma_reject(id, NULL, 0), EINVAL);
	SAYS("rdma_reject: there is nothing to reject in this state; take the id of a "
	     "CONNECT_REQUEST");
}

static void disconnect_what_never_was(int arg)
{
	begin(arg);
	want_eq(bind_to("127.0.0.1", 0), 0);
	want_minus1(rdma_disconnect(id), EINVAL);
	SAYS("rdma_disconnect: the id was never connected; wait for ESTABLISHED first");
}

static void bind_twice(int arg)
{
	begin(arg);
	want_eq(bind_to("127.0.0.1", 0), 0);
	want_minus1(bind_to("127.0.0.1", 0), EINVAL);
	SAYS("rdma_bind_addr: the id is bound already; make another id");
}

static void bind_to_a_strangers_address(int arg)
{
	begin(arg);
	want_minus1(bind_to("192.0.2.7", 0), EADDRNOTAVAIL);
	SAYS("rdma_bind_addr: no interface has the address 192.0.2.7; take one that `ip addr` "
	     "shows");
}

static void bind_an_unknown_family(int arg)
{
	struct sockaddr_in a = { .sin_family = AF_UNIX };

	begin(arg);
	want_minus1(rdma_bind_addr(id, (struct sockaddr *)&a), EINVAL);
	SAYS("rdma_bind_addr: address family 1; use AF_INET or AF_INET6");
}

static void an_infiniband_address(int arg)
{
	struct sockaddr_ib port = { .sib_family = AF_IB }, any = port;
	struct sockaddr_in loop = at("127.0.0.1", 0);

	begin(arg);
	port.sib_addr.sib_raw[15] = 1;
	want_minus1(rdma_bind_addr(id, (struct sockaddr *)&port), ENODEV);
	SAYS("rdma_bind_addr: no RDMA device has an AF_IB address, since all ports are RoCE; use "
	     "AF_INET or AF_INET6");
	want_minus1(rdma_resolve_addr(id, NULL, (struct sockaddr *)&port, 1000), ENODEV);
	SAYS("rdma_resolve_addr: no RDMA device has an AF_IB address, since all ports are RoCE; "
	     "use AF_INET or AF_INET6");
	want_minus1(rdma_resolve_addr(id, (struct sockaddr *)&any, (struct sockaddr *)&port, 1000),
		    ENODEV);
	want_minus1(rdma_resolve_addr(id, (struct sockaddr *)&port, (struct sockaddr *)&loop, 1000),
		    ENODEV);
	want_minus1(rdma_resolve_addr(id, (struct sockaddr *)&loop, (struct sockaddr *)&port, 1000),
		    EINVAL);
	SAYS("rdma_resolve_addr: the address family is neither AF_INET nor AF_INET6; use one of "
	     "these");
	want_minus1(rdma_bind_addr(id, (struct sockaddr *)&any), EINVAL);
	SAYS("rdma_bind_addr: address family 27; use AF_INET or AF_INET6");
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&loop), 0); /* nothing has happened */
	want_minus1(rdma_resolve_addr(id, NULL, (struct sockaddr *)&port, 1000), EINVAL);
}

static void a_port_that_is_taken(int arg)
{
	struct rdma_cm_id *first;

	begin(arg);
	want_eq(bind_to("127.0.0.1", 7471), 0);
	want_eq(rdma_listen(id, 1), 0);
	first = id;
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	want_minus1(bind_to("127.0.0.1", 7471), EADDRINUSE);
	SAYS("rdma_bind_addr: port 7471 is taken by another id, of this process or another; take "
	     "another port, or 0");
	want(first);
}

static void route_before_the_address(int arg)
{
	begin(arg);
	want_minus1(rdma_resolve_route(id, 1000), EINVAL);
	SAYS("rdma_resolve_route: needs a resolved address and a time of at least 1 ms; call "
	     "rdma_resolve_addr and wait for ADDR_RESOLVED");
}

static void expect(enum rdma_cm_event_type event, int status)
{
	struct rdma_cm_event *e;

	want_eq(rdma_get_cm_event(channel, &e), 0);
	want_eq(e->event, event);
	want_eq(e->status, status);
	want_eq(rdma_ack_cm_event(e), 0);
}

static int resolve(const char *address, uint16_t port)
{
	struct sockaddr_in a = at(address, port);

	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 1000);
}

static void connect_to_port(uint16_t port)
{
	struct rdma_conn_param p = { .qp_num = 0x123 };

	want_eq(resolve("127.0.0.1", port), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	want_eq(rdma_resolve_route(id, 1000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	want_eq(rdma_connect(id, &p), 0);
}

static void nobody_listens(int arg)
{
	begin(arg);
	connect_to_port(7499);
	expect(RDMA_CM_EVENT_REJECTED, 8);
	SAYS("RDMA_CM_EVENT_REJECTED (status 8) for 127.0.0.1, port 7499: nobody listens there; "
	     "start the server before the client, or check address, port and port space");
}

static void nobody_listens_to_datagrams(int arg)
{
	begin(arg);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	connect_to_port(7499);
	expect(RDMA_CM_EVENT_UNREACHABLE, 1);
	SAYS("RDMA_CM_EVENT_UNREACHABLE (status 1) for 127.0.0.1, port 7499: nobody listens "
	     "there; start the server before the client, or check address, port and port space");
}

static void no_route(int arg)
{
	begin(arg);
	want_minus1(resolve("192.0.2.7", 7499), ENETUNREACH);
	SAYS("rdma_resolve_addr: the kernel has no route to 192.0.2.7; take an address that `ip "
	     "route get` finds");
}

static void resolve_twice(int arg)
{
	begin(arg);
	want_eq(resolve("127.0.0.1", 7499), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	want_minus1(resolve("127.0.0.1", 7499), EINVAL);
	SAYS("rdma_resolve_addr: the id is resolved or connected already; make another id");
}

static void a_group_on_a_connected_port_space(int arg)
{
	struct sockaddr_in group = at("239.1.2.3", 0);

	begin(arg);
	want_eq(bind_to("127.0.0.1", 0), 0);
	want_minus1(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), EINVAL);
	SAYS("rdma_join_multicast: needs an id of UD that is bound to a device and has no route "
	     "yet; call rdma_bind_addr or rdma_resolve_addr before");
}

static const struct test_case cases[] = {
	CASE(connect_without_a_route),
	CASE(accept_without_a_request),
	CASE(reject_nothing),
	CASE(disconnect_what_never_was),
	CASE(bind_twice),
	CASE(bind_to_a_strangers_address),
	CASE(bind_an_unknown_family),
	CASE(an_infiniband_address),
	CASE(a_port_that_is_taken),
	CASE(route_before_the_address),
	CASE(nobody_listens),
	CASE(nobody_listens_to_datagrams),
	CASE(no_route),
	CASE(resolve_twice),
	CASE(a_group_on_a_connected_port_space),
};

int main(void)
{
	return CASES_RUN(cases);
}
