// SPDX-License-Identifier: MIT
/* An interface is removed while ids of connection management are bound to it: each hears of it once
 * and can be destroyed; when the interface is back, the next one resolves. An address comes while
 * the library has no descriptor to ask for it. Needs a network namespace that it may change. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { LIMIT = 20000 };

static struct rdma_event_channel *channel;
static int refusing, refused; /* netlink sockets; atomic */

/* Stands in place of the C library's. */
__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && __atomic_load_n(&refusing, __ATOMIC_SEQ_CST)) {
		__atomic_fetch_add(&refused, 1, __ATOMIC_SEQ_CST);
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_socket, domain, type, protocol);
}

static void ip(const char *command)
{
	if (system(command))
		fail("%s", command);
}

static void begin(void)
{
	ip("ip link add softhca0 type veth peer name softhca1");
	ip("ip link set softhca0 addrgenmode none"); /* IPv6 addresses come when they like */
	ip("ip link set softhca1 addrgenmode none");
	ip("ip link set softhca1 up");
	ip("ip addr add 10.77.0.1/24 dev softhca0");
	ip("ip link set softhca0 up");
}

static struct sockaddr_in address(const char *text)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	want_eq(inet_pton(AF_INET, text, &a.sin_addr), 1);
	return a;
}

static struct rdma_cm_id *id_at(const char *text)
{
	struct sockaddr_in a = address(text);
	struct rdma_cm_id *id;

	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&a), 0);
	return id;
}

static struct rdma_cm_id *comes(int event)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	want_eq(poll(&p, 1, LIMIT), 1);
	want_eq(rdma_get_cm_event(channel, &e), 0);
	want_eq(e->event, event);
	want_eq(e->status, 0);
	id = e->id;
	want_eq(rdma_ack_cm_event(e), 0);
	return id;
}

/* True when there is a device with that address. */
static bool resolves(void)
{
	struct sockaddr_in own = address("10.77.0.1");
	struct rdma_cm_id *id;
	bool can;

	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	can = !rdma_resolve_addr(id, NULL, (struct sockaddr *)&own, 1000);
	if (can) {
		struct rdma_cm_event *e;

		want_eq(rdma_get_cm_event(channel, &e), 0);
		can = e->event == RDMA_CM_EVENT_ADDR_RESOLVED;
		want_eq(rdma_ack_cm_event(e), 0);
	}
	want_eq(rdma_destroy_id(id), 0);
	return can;
}

static void the_interface_goes(int arg)
{
	struct rdma_cm_id *bound, *listening, *wide, *first, *second;
	struct pollfd p = { .events = POLLIN };

	(void)arg;
	begin();
	setenv("SOFTHCA_DEVICES", "mlx5_0=softhca0", 1);
	channel = rdma_create_event_channel();
	want(channel);
	bound = id_at("10.77.0.1");
	listening = id_at("10.77.0.1");
	wide = id_at("0.0.0.0");
	want_eq(rdma_listen(listening, 0), 0);
	want_eq(rdma_listen(wide, 0), 0);
	ip("ip link del softhca0");
	first = comes(RDMA_CM_EVENT_DEVICE_REMOVAL);
	second = comes(RDMA_CM_EVENT_DEVICE_REMOVAL);
	want((first == bound && second == listening) || (first == listening && second == bound));
	want_minus1(rdma_listen(bound, 0), EINVAL);
	want_minus1(rdma_resolve_route(bound, 100), EINVAL);
	want_eq(rdma_destroy_id(bound), 0);
	want_eq(rdma_destroy_id(listening), 0);
	begin();
	while (!resolves())
		;
	p.fd = channel->fd;
	want_eq(poll(&p, 1, 0), 0);
	want_eq(rdma_destroy_id(wide), 0);
	rdma_destroy_event_channel(channel);
	ip("ip link del softhca0");
}

static bool has_gid(struct ibv_context *ctx, const char *text)
{
	union ibv_gid want, gid;

	want_eq(inet_pton(AF_INET6, text, &want), 1);
	for (int i = 0; !ibv_query_gid(ctx, 1, i, &gid); i++)
		if (!memcmp(&gid, &want, sizeof(gid)))
			return true;
	return false;
}

/* The library's netlink socket that stays open: it watches for changes. */
static int watch(void)
{
	int domain, fd = 2;
	socklen_t len;

	do {
		want(++fd < FD_SETSIZE);
		len = sizeof(domain);
	} while (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) || domain != AF_NETLINK);
	return fd;
}

static void an_address_comes_without_a_descriptor(int arg)
{
	struct pollfd p = { .events = POLLIN }, news = { .events = POLLIN };
	struct ibv_async_event event;
	struct ibv_port_attr port;
	struct ibv_context *ctx;
	struct ibv_device **all;

	(void)arg;
	begin();
	setenv("SOFTHCA_DEVICES", "mlx5_0=softhca0", 1);
	all = ibv_get_device_list(NULL);
	want(all && all[0]);
	ctx = ibv_open_device(all[0]);
	want(ctx);
	ibv_free_device_list(all);
	do
		want_eq(ibv_query_port(ctx, 1, &port), 0);
	while (port.state != IBV_PORT_ACTIVE);
	__atomic_store_n(&refusing, 1, __ATOMIC_SEQ_CST);
	ip("ip addr add 10.77.0.2/24 dev softhca0");
	news.fd = watch();
	while (!__atomic_load_n(&refused, __ATOMIC_SEQ_CST) || poll(&news, 1, 0))
		sched_yield();
	__atomic_store_n(&refusing, 0, __ATOMIC_SEQ_CST);
	p.fd = ctx->async_fd;
	while (!has_gid(ctx, "::ffff:10.77.0.2")) {
		want_eq(poll(&p, 1, LIMIT), 1);
		want_eq(ibv_get_async_event(ctx, &event), 0);
		ibv_ack_async_event(&event);
	}
	want_eq(ibv_close_device(ctx), 0);
	ip("ip link del softhca0");
}

int main(void)
{
	static const struct test_case list[] = {
		CASE(the_interface_goes),
		CASE(an_address_comes_without_a_descriptor),
	};

	return CASES_RUN(list);
}
