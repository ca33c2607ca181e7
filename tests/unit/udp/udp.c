// SPDX-License-Identifier: MIT
/* The udp link over the loopback interface: two addresses of 127.0.0.0/8 are two ends. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "net/gid.h"
#include "obs/explain.h"
#include "test.h"
#include "udp/udp.h"
#include "util/fork.h"
#include "util/guard.h"
#include "wire/grh.h"
#include "wire/ip.h"
#include "wire/opcode.h"

enum { BYTES = 1000, BUDGET = 16, ASIDE = 3 /* last byte of an address beside that of path() */ };

/* Ports that a test chooses: below those that the link has by itself, of which one follows from the
 * number of the process. */
enum { CHOSEN = 25555, PORTS = 8, ANOTHER = 24444 };

static struct {
	unsigned int n;
	unsigned int aside; /* of these, to the address ASIDE */
	struct seg last;
	uint8_t data[UDP_MTU_MAX], grh[GRH_LEN];
} got;

static int
	news; /* errno that an earlier packet has brought, which the next call is told; 0: none */

/* In place of the library's. */
int sendmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags)
{
	if (!news)
		return (int)syscall(SYS_sendmmsg, fd, msg, n, flags);
	errno = news;
	news = 0;
	return -1;
}

static void deliver(void *arg, const struct seg *s)
{
	check(arg == &got);
	got.n++;
	got.aside += s->grh[GRH_LEN - 1] == ASIDE;
	got.last = *s;
	memcpy(got.data, s->data, s->len);
	memcpy(got.grh, s->grh, GRH_LEN);
}

static struct udp *start(void)
{
	const struct udp_config cfg = { deliver, &got };
	struct udp *u;

	check_eq(fork_init(), 0);
	check_eq(guard_init(), 0);
	memset(&got, 0, sizeof(got));
	check_eq(udp_create(&cfg, &u), 0);
	return u;
}

static union ibv_gid address(bool v6, uint8_t last)
{
	uint8_t ip[4] = { 127, 0, 0, last };
	union ibv_gid gid = { .raw = { [15] = 1 } };

	if (!v6)
		gid_of_ipv4(ip, &gid);
	return gid;
}

static struct dest *path(struct udp *u, bool v6)
{
	struct udp_path p = { .net = { address(v6, 1), address(v6, 2) },
			      .mtu = 1024,
			      .lqpn = 5,
			      .rqpn = 9,
			      .tclass = 0x20,
			      .hop_limit = 7 };
	struct dest *d;

	check_eq(udp_listen(u, &p.net.remote, 0), 0);
	check_eq(udp_dest(u, &p, &d), 0);
	check(d->net && !d->same_host && d->max_seg == 1024 && !d->max_ref && d->window);
	return d;
}

/* A SEND with immediate of UD, whose headers have most fields; @n of them in one batch. */
static void send_datagrams(struct dest *d, uint32_t n)
{
	static uint8_t bytes[BYTES];
	struct seg s = { .op = SVC_UD | OP_SEND_ONLY_IMM,
			 .flags = SEG_SOLICITED,
			 .pkey = 0xffff,
			 .dqpn = 0x123456,
			 .sqpn = 0xabcde,
			 .qkey = 0x11111111,
			 .imm = 0xdeadbeef,
			 .data = bytes };

	for (uint32_t i = 0; i < n; i++) {
		memset(bytes, (int)i + 1, sizeof(bytes));
		s.psn = i;
		s.len = BYTES - i;
		s.more = true;
		check_eq(dest_send(d, &s, NULL), 0);
	}
	d->ops->flush(d);
}

static void drain(struct udp *u, unsigned int want)
{
	while (still(got.n < want))
		udp_drain(u, 8, true);
}

static void check_arrival(uint32_t i, bool v6)
{
	struct grh g;

	check_eq(got.last.op, SVC_UD | OP_SEND_ONLY_IMM);
	check_eq(got.last.flags, SEG_NET | SEG_SOLICITED);
	check_eq(got.last.psn, i);
	check_eq(got.last.len, BYTES - i);
	check_eq(got.last.dqpn, 0x123456);
	check_eq(got.last.sqpn, 0xabcde);
	check_eq(got.last.qkey, 0x11111111);
	check_eq(got.last.imm, 0xdeadbeef);
	check_eq(got.last.l3, v6 ? GRH_L3_IPV6 : GRH_L3_IPV4);
	check(got.last.sport >= 0xc000);
	for (uint32_t k = 0; k < got.last.len; k++)
		check_eq(got.data[k], i + 1);
	check_eq(grh_parse(got.grh, &g), 0);
	check_mem(g.sgid, address(v6, 1).raw, 16);
	check_mem(g.dgid, address(v6, 2).raw, 16);
	check_eq(g.hop_limit, 7);
	check_eq(g.tclass, 0x20);
}

static void exchange(bool v6)
{
	struct udp *u = start();
	struct dest *d = path(u, v6);
	struct udp_counts c;

	send_datagrams(d, 70);
	drain(u, 70);
	check_arrival(69, v6);
	udp_count(u, &c);
	check_eq(c.sent, 70);
	check_eq(c.received, 70);
	check_eq(c.bad_icrc + c.malformed + c.unsent, 0);
	d->ops->put(d);
	udp_destroy(u);
}

TEST(packets_arrive_whole_over_ipv4)
{
	exchange(false);
}

TEST(packets_arrive_whole_over_ipv6)
{
	union ibv_gid one = address(true, 1);
	int s = socket(AF_INET6, SOCK_DGRAM, 0);
	struct sockaddr_in6 a = { .sin6_family = AF_INET6 };
	int err;

	memcpy(&a.sin6_addr, one.raw, sizeof(one));
	err = s < 0 || bind(s, (struct sockaddr *)&a, sizeof(a));
	if (s >= 0)
		close(s);
	if (err)
		skip();
	exchange(true);
}

/* What a program without rights may send to the port. */
TEST(nonsense_and_damage_are_counted_and_dropped)
{
	struct udp *u = start();
	struct dest *d = path(u, false);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(UDP_ROCE_PORT) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	char said[EXPLAIN_TEXT] = "";
	uint8_t packet[64] = { SVC_UD | OP_SEND_ONLY, [2] = 0xff, [3] = 0xff };
	struct udp_counts c = { 0 };

	to.sin_addr.s_addr = htonl(0x7f000002);
	check(s >= 0);
	check(sendto(s, packet, 5, 0, (struct sockaddr *)&to, sizeof(to)) == 5);
	check(sendto(s, packet, 64, 0, (struct sockaddr *)&to, sizeof(to)) == 64);
	while (still(c.bad_icrc + c.malformed < 2)) {
		udp_drain(u, 8, true);
		udp_count(u, &c);
	}
	check_eq(c.malformed, 1);
	check_eq(c.bad_icrc, 1);
	check_eq(got.n, 0);
	check_eq(explain_last(said, sizeof(said)), 0);
	check(strstr(said, "packet of 64 B from 127.0.0.1, UDP port "));
	check(strstr(said, " dropped (1 so far): its ICRC is wrong; look for what damages"));
	close(s);
	d->ops->put(d);
	udp_destroy(u);
}

/* A read of an empty socket is a system call. The question of the host to itself, which a link asks
 * when its port is opened, brings nothing that a poll could wait for. */
TEST(polls_leave_a_socket_alone_that_has_brought_hellos_only)
{
	struct udp_path p = { .net = { address(false, 1), address(false, 2) }, .mtu = 1024 };
	struct udp *u = start(), *sender = start();
	struct dest *d;

	check_eq(udp_listen(u, &p.net.remote, 0), 0);
	while (still(!udp_drain(u, 8, true)))
		; /* until the question is there */
	check_eq(udp_dest(sender, &p, &d), 0);
	send_datagrams(d, 1);
	check_eq(udp_drain(u, 8, false), 0);
	drain(u, 1);
	send_datagrams(d, 1);
	while (still(got.n < 2))
		udp_drain(u, 8, false);
	d->ops->put(d);
	udp_destroy(sender);
	udp_destroy(u);
}

/* Whoever sends to one address all the time does not keep what others send to another. */
TEST(an_address_that_has_more_than_a_drain_takes_hides_no_other)
{
	struct udp_path p = { .net = { address(false, 1), address(false, ASIDE) }, .mtu = 1024 };
	struct udp *u = start();
	struct dest *busy = path(u, false), *other;

	check_eq(udp_listen(u, &p.net.remote, 0), 0);
	check_eq(udp_dest(u, &p, &other), 0);
	send_datagrams(other, 1);
	for (int i = 0; i < 4; i++) {
		send_datagrams(busy, BUDGET);
		udp_drain(u, BUDGET, true);
	}
	check_eq(got.aside, 1);
	drain(u, 4 * BUDGET + 1);
	other->ops->put(other);
	busy->ops->put(busy);
	udp_destroy(u);
}

TEST(a_port_that_another_holds_is_refused_with_the_holder)
{
	struct udp *u = start();
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(UDP_ROCE_PORT) };
	union ibv_gid gid = address(false, 3);
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct rlimit most, none = { 0 };
	char who[64], want[64];
	uint32_t uid;

	at.sin_addr.s_addr = htonl(0x7f000003);
	check_eq(bind(s, (struct sockaddr *)&at, sizeof(at)), 0);
	check_eq(udp_listen(u, &gid, 0), EADDRINUSE);
	snprintf(want, sizeof(want), "uid %u", getuid());
	check(!strncmp(udp_holder(&gid, who, sizeof(who)), want, strlen(want)));
	check(udp_again(u));
	close(s);
	check(!getrlimit(RLIMIT_NOFILE, &most));
	none.rlim_max = most.rlim_max;
	check(!setrlimit(RLIMIT_NOFILE, &none));
	check(udp_again(u));
	check(!setrlimit(RLIMIT_NOFILE, &most));
	check_eq(udp_port_user(&gid, &uid), ENOENT);
	check(!udp_again(u));
	check_eq(udp_port_user(&gid, &uid), 0);
	udp_destroy(u);
}

/* Sent to a broadcast address without asking for it, which the kernel does not do. */
TEST(what_the_kernel_refuses_to_send_is_told)
{
	struct udp *u = start();
	union ibv_gid all = address(false, 255);
	struct udp_path p = { .net = { address(false, 1), all }, .mtu = 256, .rqpn = 9 };
	struct udp_counts c;
	struct dest *d;

	memset(all.raw + 13, 255, 3);
	p.net.remote = all;
	check_eq(udp_dest(u, &p, &d), 0);
	check_eq(dest_refused(d), 0);
	send_datagrams(d, 1);
	check_eq(dest_refused(d), EACCES);
	udp_count(u, &c);
	check_eq(c.unsent, 1);
	d->ops->put(d);
	udp_destroy(u);
}

/* By ICMP, to the socket that sends to QP 1: whatever it was, the next packet leaves. */
TEST(what_became_of_an_earlier_packet_stops_no_other)
{
	static const int errors[] = { ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EMSGSIZE,
				      ENOPROTOOPT,  EOPNOTSUPP,	  EACCES,      EPROTO };
	struct udp *u = start();
	struct udp_path p = {
		.net = { address(false, 1), address(false, 2) }, .mtu = 1024, .lqpn = 1, .rqpn = 1
	};
	struct udp_counts c;
	struct dest *d;

	check_eq(udp_listen(u, &p.net.remote, 0), 0); /* or each packet would bring news itself */
	check_eq(udp_dest(u, &p, &d), 0);
	for (unsigned int i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		news = errors[i];
		send_datagrams(d, 1);
		check_eq(dest_refused(d), 0);
	}
	udp_count(u, &c);
	check_eq(c.unsent, 0);
	d->ops->put(d);
	udp_destroy(u);
}

TEST(families_do_not_mix)
{
	struct udp *u = start();
	struct udp_path p = { .net = { address(false, 1), address(true, 1) }, .mtu = 256 };
	struct dest *d;

	check_eq(udp_dest(u, &p, &d), EINVAL);
	udp_destroy(u);
}

/* Once the port is chosen, all packets of that destination leave from it, and no others. */
TEST(packets_leave_from_the_port_that_is_chosen)
{
	struct udp *u = start();
	struct udp_path p = { .net = { address(false, 1), address(false, 2) }, .mtu = 1024 };
	struct dest *d[PORTS], *other, *plain = path(u, false);

	for (uint16_t i = 0; i < PORTS; i++) {
		p.sport = CHOSEN + i;
		check_eq(udp_dest(u, &p, &d[i]), 0);
		send_datagrams(d[i], 1);
		while (still(!udp_drain(u, 64, true)))
			;
		check_eq(got.last.sport, CHOSEN + i);
	}
	p.sport = ANOTHER;
	check_eq(udp_dest(u, &p, &other), ENOSPC);
	p.sport = CHOSEN + 2;
	check_eq(udp_dest(u, &p, &other), 0); /* a second one shares it */
	send_datagrams(plain, 1);
	while (still(!udp_drain(u, 64, true)))
		;
	check(got.last.sport < CHOSEN || got.last.sport >= CHOSEN + PORTS);
	other->ops->put(other);
	for (uint16_t i = 0; i < PORTS; i++)
		d[i]->ops->put(d[i]);
	plain->ops->put(plain);
	udp_destroy(u);
}

/* Ports that address vectors name are had while there are sockets for them, and are no reason to
 * refuse anything; they leave those that programs choose alone. */
TEST(packets_leave_from_the_port_that_is_wished)
{
	struct udp *u = start();
	struct udp_path p = { .net = { address(false, 1), address(false, 2) }, .mtu = 1024 };
	struct dest *d;

	check_eq(udp_listen(u, &p.net.remote, 0), 0);
	for (uint16_t i = 0; i < PORTS + 2; i++) {
		p.wish = CHOSEN + i;
		check_eq(udp_dest(u, &p, &d), 0);
		send_datagrams(d, 1);
		while (still(!udp_drain(u, 64, true)))
			;
		check((got.last.sport == CHOSEN + i) == (i < PORTS));
		check(got.last.sport >= 0xc000 || i < PORTS);
		d->ops->put(d);
	}
	p.wish = UDP_ROCE_PORT;
	check_eq(udp_dest(u, &p, &d), 0);
	d->ops->put(d);
	p.sport = ANOTHER;
	check_eq(udp_dest(u, &p, &d), 0);
	send_datagrams(d, 1);
	while (still(!udp_drain(u, 64, true)))
		;
	check_eq(got.last.sport, ANOTHER);
	d->ops->put(d);
	udp_destroy(u);
}

TEST(packets_do_not_leave_from_the_port_that_receives)
{
	struct udp *u = start();
	struct udp_path p = { .net = { address(false, 1), address(false, 2) },
			      .mtu = 1024,
			      .sport = UDP_ROCE_PORT };
	struct dest *d;

	check_eq(udp_dest(u, &p, &d), EINVAL);
	udp_destroy(u);
}

/* A process at its limit of descriptors misses the port for a moment only. */
TEST(a_port_that_lacks_a_descriptor_is_tried_again)
{
	union ibv_gid local = address(false, 3);
	struct udp *u = start();
	struct rlimit full, low;
	unsigned int next = (unsigned int)dup(0);
	uint32_t uid;

	close((int)next);
	check_eq(getrlimit(RLIMIT_NOFILE, &full), 0);
	low = full;
	for (unsigned int spare = 0; spare < 2; spare++) {
		low.rlim_cur = next + spare; /* none for the port; then none to ask peers from */
		check_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
		check_eq(udp_listen(u, &local, 0), EMFILE);
		check(udp_again(u));
	}
	check_eq(setrlimit(RLIMIT_NOFILE, &full), 0);
	check(!udp_again(u));
	check_eq(udp_port_user(&local, &uid), 0);
	udp_destroy(u);
}

/* Bytes that wait in sockets which are bound to @port of 127.0.0.1. */
static unsigned int waiting(uint16_t port)
{
	FILE *f = fopen("/proc/net/udp", "re");
	unsigned int at, queue, sum = 0;
	char line[256], local[9];

	check(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, " %*u: %8s:%x %*s %*x %*x:%x", local, &at, &queue) == 3 &&
		    strtoul(local, NULL, 16) == htonl(INADDR_LOOPBACK) && at == port)
			sum += queue;
	fclose(f);
	return sum;
}

static void throw_at(uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr = { htonl(INADDR_LOOPBACK) },
				  .sin_port = htons(port) };
	static const uint8_t bytes[BYTES];
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	check(s >= 0);
	for (unsigned int i = 0; i < 16; i++)
		check_eq(sendto(s, bytes, BYTES, 0, (struct sockaddr *)&to, sizeof(to)), BYTES);
	close(s);
}

/* Nobody reads the sockets that packets leave from: what anybody sends to them is not kept. */
TEST(sockets_that_send_keep_nothing)
{
	struct udp *u = start();
	struct udp_path p = { .net = { address(false, 1), address(false, 2) },
			      .mtu = 1024,
			      .sport = CHOSEN };
	struct dest *plain = path(u, false), *chosen;

	check_eq(udp_dest(u, &p, &chosen), 0);
	send_datagrams(plain, 4);
	drain(u, 4);
	throw_at(got.last.sport);
	check_eq(waiting(got.last.sport), 0);
	throw_at(CHOSEN);
	check_eq(waiting(CHOSEN), 0);
	chosen->ops->put(chosen);
	plain->ops->put(plain);
	udp_destroy(u);
}

RUN_TESTS(unit_test(sockets_that_send_keep_nothing),
	  unit_test(packets_leave_from_the_port_that_is_chosen),
	  unit_test(packets_leave_from_the_port_that_is_wished),
	  unit_test(packets_do_not_leave_from_the_port_that_receives),
	  unit_test(packets_arrive_whole_over_ipv4), unit_test(packets_arrive_whole_over_ipv6),
	  unit_test(nonsense_and_damage_are_counted_and_dropped),
	  unit_test(polls_leave_a_socket_alone_that_has_brought_hellos_only),
	  unit_test(an_address_that_has_more_than_a_drain_takes_hides_no_other),
	  unit_test(a_port_that_another_holds_is_refused_with_the_holder),
	  unit_test(what_the_kernel_refuses_to_send_is_told),
	  unit_test(what_became_of_an_earlier_packet_stops_no_other),
	  unit_test(families_do_not_mix), unit_test(a_port_that_lacks_a_descriptor_is_tried_again))
