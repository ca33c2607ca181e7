// SPDX-License-Identifier: MIT
/* Addresses and links that change while a program runs: the GID table follows, the event comes, and
 * nothing else does. What lacks a descriptor for a moment is there in time. Needs a network
 * namespace that it may change. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"

static struct peer_dev dev;

static void ip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void ip(const char *fmt, ...)
{
	char command[200] = "ip ";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command + 3, sizeof(command) - 3, fmt, ap);
	va_end(ap);
	if (system(command))
		fail("%s", command);
}

/* The device is bound to an interface of its own, so that its link can go down. */
static void begin(void)
{
	ip("link add softhca0 type veth peer name softhca1");
	ip("link set softhca0 addrgenmode none"); /* IPv6 addresses come when they like */
	ip("link set softhca1 addrgenmode none");
	ip("link set softhca1 up");
	ip("addr add 10.77.0.1/24 dev softhca0");
	ip("link set softhca0 up");
	setenv("SOFTHCA_DEVICES", "mlx5_0=softhca0", 1);
	peer_open(&dev);
}

static void end(void)
{
	peer_close(&dev);
	ip("link del softhca0");
}

static bool next_event(struct ibv_async_event *ev, int ms)
{
	struct pollfd p = { .fd = dev.ctx->async_fd, .events = POLLIN };

	if (poll(&p, 1, ms) != 1)
		return false;
	want_eq(ibv_get_async_event(dev.ctx, ev), 0);
	ibv_ack_async_event(ev);
	return true;
}

/* Waits for this event; every one before it is the same kind. */
static void comes(enum ibv_event_type type)
{
	struct ibv_async_event ev;

	want(next_event(&ev, 10000));
	want_eq(ev.event_type, type);
	want_eq(ev.element.port_num, 1);
}

static void nothing_but(enum ibv_event_type type)
{
	struct ibv_async_event ev;

	while (next_event(&ev, 50))
		want_eq(ev.event_type, type);
}

/* Where the table holds ::ffff:a.b.c.d; -1: nowhere. */
static int index_of(const char *v4)
{
	union ibv_gid want_gid = { .raw = { [10] = 0xff, [11] = 0xff } }, gid;

	want_eq(inet_pton(AF_INET, v4, want_gid.raw + 12), 1);
	for (int i = 0; i < 16; i++) {
		want_eq(ibv_query_gid(dev.ctx, 1, i, &gid), 0);
		if (!memcmp(&gid, &want_gid, sizeof(gid)))
			return i;
	}
	return -1;
}

static void an_address_comes_and_goes(int arg)
{
	union ibv_gid first, now;

	(void)arg;
	begin();
	nothing_but(IBV_EVENT_GID_CHANGE);
	want_eq(ibv_query_gid(dev.ctx, 1, PEER_GID_INDEX, &first), 0);
	want_eq(index_of("10.77.0.9"), -1);
	ip("addr add 10.77.0.9/24 dev softhca0");
	comes(IBV_EVENT_GID_CHANGE);
	want(index_of("10.77.0.9") >= 0);
	want_eq(ibv_query_gid(dev.ctx, 1, PEER_GID_INDEX, &now), 0);
	want(!memcmp(&first, &now, sizeof(now)));
	nothing_but(IBV_EVENT_GID_CHANGE);
	ip("addr del 10.77.0.9/24 dev softhca0");
	comes(IBV_EVENT_GID_CHANGE);
	want_eq(index_of("10.77.0.9"), -1);
	nothing_but(IBV_EVENT_GID_CHANGE);
	end();
}

static bool in_file(const char *path, const char *what)
{
	FILE *f = fopen(path, "re");
	bool found = false;
	char line[256];

	want(f);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, what) != NULL;
	fclose(f);
	return found;
}

/* Whether somebody listens to UDP 4791 of 10.77.0.9. */
static bool listened_to(void)
{
	return in_file("/proc/self/net/udp", " 09004D0A:12B7 ");
}

/* A datagram QP receives by addresses that come later too, and no socket is left of one that has
 * gone. When the program hears of it all is done. */
static void packets_follow_the_addresses(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 } };
	struct peer_ep ep;

	(void)arg;
	begin();
	peer_ep_create(&dev, &o, &ep);
	peer_connect(&ep, &o);
	nothing_but(IBV_EVENT_GID_CHANGE);
	for (int i = 0; i < 3; i++) {
		want(!listened_to());
		ip("addr add 10.77.0.9/24 dev softhca0");
		comes(IBV_EVENT_GID_CHANGE);
		want(listened_to());
		ip("addr del 10.77.0.9/24 dev softhca0");
		comes(IBV_EVENT_GID_CHANGE);
	}
	want(!listened_to());
	peer_ep_destroy(&ep);
	end();
}

/* --- no descriptor is left for a moment --- */

static const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };

static bool own_listened_to(void)
{
	return in_file("/proc/self/net/udp", " 01004D0A:12B7 ");
}

static bool is_member(void)
{
	return in_file("/proc/self/net/igmp", "030201EF");
}

/* The next descriptor would be one too many; returns the limit before. */
static struct rlimit shorten(void)
{
	struct rlimit before, low;
	int next = dup(0);

	close(next);
	want_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	low.rlim_cur = (rlim_t)next;
	want_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	return before;
}

static void in_time(bool (*is_so)(void))
{
	time_t end = time(NULL) + 20;

	while (!is_so())
		want(time(NULL) < end);
}

static void a_receiver_listens_once_it_has_a_descriptor(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 } };
	struct rlimit before;
	struct peer_ep ep;

	(void)arg;
	begin();
	peer_ep_create(&dev, &o, &ep);
	before = shorten();
	peer_connect(&ep, &o);
	want_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	in_time(own_listened_to);
	peer_ep_destroy(&ep);
	end();
}

enum { PORT_IS_OPEN, NOTHING_IS_OPEN };

static void a_group_is_joined_once_there_is_a_descriptor(int what)
{
	struct peer_opts o = { .type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 } };
	struct rlimit before;
	struct peer_ep ep;

	begin();
	peer_ep_create(&dev, &o, &ep);
	if (what == PORT_IS_OPEN) {
		peer_connect(&ep, &o);
		want(own_listened_to());
	}
	before = shorten();
	want_eq(ibv_attach_mcast(ep.qp, &group, 0), 0);
	want_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	in_time(is_member);
	want_eq(ibv_detach_mcast(ep.qp, &group, 0), 0);
	want(!is_member());
	peer_ep_destroy(&ep);
	end();
}

/* The first member could not open the network; the second did. */
static void a_group_lasts_as_long_as_its_members(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 } };
	struct peer_ep first, second;
	struct rlimit before;

	(void)arg;
	begin();
	peer_ep_create(&dev, &o, &first);
	peer_ep_create(&dev, &o, &second);
	before = shorten();
	want_eq(ibv_attach_mcast(first.qp, &group, 0), 0);
	want_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	want_eq(ibv_attach_mcast(second.qp, &group, 0), 0);
	want(is_member());
	want_eq(ibv_detach_mcast(first.qp, &group, 0), 0);
	want(is_member());
	want_eq(ibv_detach_mcast(second.qp, &group, 0), 0);
	want(!is_member());
	peer_ep_destroy(&first);
	peer_ep_destroy(&second);
	end();
}

/* An address of another interface is none of the device's. */
static void another_interface_is_none_of_ours(int arg)
{
	struct ibv_async_event ev;

	(void)arg;
	begin();
	nothing_but(IBV_EVENT_GID_CHANGE);
	ip("addr add 10.78.0.1/24 dev softhca1");
	want(!next_event(&ev, 200));
	want_eq(index_of("10.78.0.1"), -1);
	end();
}

static enum ibv_port_state state(void)
{
	struct ibv_port_attr port;

	want_eq(ibv_query_port(dev.ctx, 1, &port), 0);
	return port.state;
}

static void wait_for(enum ibv_event_type type)
{
	struct ibv_async_event ev;

	do
		want(next_event(&ev, 10000));
	while (ev.event_type == IBV_EVENT_GID_CHANGE && type != IBV_EVENT_GID_CHANGE);
	want_eq(ev.event_type, type);
}

static void the_link_goes_down_and_up(int arg)
{
	(void)arg;
	begin();
	nothing_but(IBV_EVENT_GID_CHANGE);
	want_eq(state(), IBV_PORT_ACTIVE);
	ip("link set softhca0 down");
	wait_for(IBV_EVENT_PORT_ERR);
	want_eq(state(), IBV_PORT_DOWN);
	ip("link set softhca0 up");
	wait_for(IBV_EVENT_PORT_ACTIVE);
	want_eq(state(), IBV_PORT_ACTIVE);
	end();
}

static void every_context_is_told(int arg)
{
	struct peer_dev second;
	struct pollfd p = { .events = POLLIN };

	(void)arg;
	begin();
	peer_open(&second);
	nothing_but(IBV_EVENT_GID_CHANGE);
	ip("addr add 10.77.0.9/24 dev softhca0");
	comes(IBV_EVENT_GID_CHANGE);
	p.fd = second.ctx->async_fd;
	want_eq(poll(&p, 1, 10000), 1);
	peer_close(&second);
	end();
}

static void nonblocking_and_epoll(int arg)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct ibv_async_event ev;
	int ep = epoll_create1(EPOLL_CLOEXEC), fd;

	(void)arg;
	begin();
	nothing_but(IBV_EVENT_GID_CHANGE);
	fd = dev.ctx->async_fd;
	want_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
	errno = 0;
	want_eq(ibv_get_async_event(dev.ctx, &ev), -1);
	want_eq(errno, EAGAIN);
	want_eq(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), 0);
	want_eq(epoll_wait(ep, &e, 1, 0), 0);
	ip("addr add 10.77.0.9/24 dev softhca0");
	want_eq(epoll_wait(ep, &e, 1, 10000), 1);
	want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
	want_eq(ev.event_type, IBV_EVENT_GID_CHANGE);
	ibv_ack_async_event(&ev);
	close(ep);
	end();
}

/* The interface is removed, and the device with it. */
static void the_interface_is_removed(int arg)
{
	struct ibv_async_event ev;
	bool port = false;

	(void)arg;
	begin();
	nothing_but(IBV_EVENT_GID_CHANGE);
	ip("link del softhca0");
	do {
		want(next_event(&ev, 10000));
		port |= ev.event_type == IBV_EVENT_PORT_ERR;
	} while (ev.event_type == IBV_EVENT_GID_CHANGE || ev.event_type == IBV_EVENT_PORT_ERR);
	want_eq(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	want(port);
	want_eq(state(), IBV_PORT_DOWN);
	peer_close(&dev);
}

static int migrate(struct ibv_qp *qp, union ibv_gid *to, int index, enum ibv_mig_state state)
{
	struct ibv_qp_attr a = { .path_mig_state = state, .alt_port_num = 1 };
	int mask = IBV_QP_PATH_MIG_STATE;

	if (state == IBV_MIG_REARM)
		mask |= IBV_QP_ALT_PATH;
	if (to) {
		a.alt_ah_attr.is_global = 1;
		a.alt_ah_attr.port_num = 1;
		a.alt_ah_attr.grh.dgid = *to;
		a.alt_ah_attr.grh.sgid_index = (uint8_t)index;
	}
	return ibv_modify_qp(qp, &a, mask);
}

static void one_message(struct peer_ep *from, struct peer_ep *to)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;

	peer_recv(to, 1, NULL, 0);
	want_eq(ibv_post_send(from->qp, &wr, &bad), 0);
	peer_poll_ok(from->scq, &wc);
	peer_poll_ok(to->rcq, &wc);
}

static void qp_event(enum ibv_event_type type, const struct ibv_qp *qp)
{
	struct ibv_async_event ev;

	do
		want(next_event(&ev, 10000));
	while (ev.event_type == IBV_EVENT_GID_CHANGE || ev.event_type == IBV_EVENT_COMM_EST);
	want_eq(ev.event_type, type);
	want(ev.element.qp == qp);
}

/* The alternate path's address was removed meanwhile: the QP stays where it is. */
static void no_migration_to_a_path_that_is_gone(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_init_attr init;
	struct peer_ep a, b;
	struct ibv_qp_attr q;
	union ibv_gid alt;
	int index;

	(void)arg;
	begin();
	ip("addr add 10.77.0.9/24 dev softhca0");
	comes(IBV_EVENT_GID_CHANGE);
	index = index_of("10.77.0.9");
	want_eq(ibv_query_gid(dev.ctx, 1, index, &alt), 0);
	peer_pair(&dev, &o, &a, &b);
	want_eq(migrate(a.qp, &alt, index, IBV_MIG_REARM), 0);
	want_eq(migrate(b.qp, &alt, index, IBV_MIG_REARM), 0);
	one_message(&a, &b);
	one_message(&b, &a);
	ip("addr del 10.77.0.9/24 dev softhca0");
	comes(IBV_EVENT_GID_CHANGE);
	want_eq(migrate(a.qp, NULL, 0, IBV_MIG_MIGRATED), 0);
	qp_event(IBV_EVENT_PATH_MIG_ERR, a.qp);
	want_eq(ibv_query_qp(a.qp, &q, IBV_QP_PATH_MIG_STATE, &init), 0);
	want_eq(q.path_mig_state, IBV_MIG_ARMED);
	one_message(&a, &b);
	ip("addr add 10.77.0.9/24 dev softhca0");
	wait_for(IBV_EVENT_GID_CHANGE);
	want(index_of("10.77.0.9") == index);
	want_eq(migrate(a.qp, NULL, 0, IBV_MIG_MIGRATED), 0);
	qp_event(IBV_EVENT_PATH_MIG, a.qp);
	one_message(&a, &b);
	qp_event(IBV_EVENT_PATH_MIG, b.qp);
	peer_ep_destroy(&a);
	peer_ep_destroy(&b);
	end();
}

static const struct test_case cases[] = {
	CASE(the_interface_is_removed),
	CASE(no_migration_to_a_path_that_is_gone),
	CASE(an_address_comes_and_goes),
	CASE(another_interface_is_none_of_ours),
	CASE(the_link_goes_down_and_up),
	CASE(every_context_is_told),
	CASE(nonblocking_and_epoll),
	CASE(packets_follow_the_addresses),
	CASE(a_receiver_listens_once_it_has_a_descriptor),
	CASE_ARG(a_group_is_joined_once_there_is_a_descriptor, PORT_IS_OPEN),
	CASE_ARG(a_group_is_joined_once_there_is_a_descriptor, NOTHING_IS_OPEN),
	CASE(a_group_lasts_as_long_as_its_members),
};

int main(void)
{
	return CASES_RUN(cases);
}
