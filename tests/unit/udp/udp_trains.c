// SPDX-License-Identifier: MIT
/* Packets that leave as one message, and marks of the network. 127.0.0.1 and 127.0.0.2 are two
 * hosts, each with a link of its own. */
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>
#include "test.h"
#include "udp/udp.h"
#include "udp_gid.h"
#include "util/fork.h"
#include "util/guard.h"
#include "wire/ip.h"
#include "wire/opcode.h"

enum { MTU = 1024, QPN = 9, PACKETS = 200, PACKET = BTH_LEN + MTU + ICRC_LEN, TOS = 0x20 };

static struct {
	unsigned int n, marked, wrong, asked;
	uint32_t psn;
} got;

static uint8_t byte_of(uint32_t psn)
{
	return (uint8_t)(psn * 7 + 1);
}

static void deliver(void *arg, const struct seg *s)
{
	(void)arg;
	got.wrong += s->psn != got.psn || s->dqpn != QPN;
	for (uint32_t i = 0; i < s->len; i++)
		got.wrong += s->data[i] != byte_of(s->psn);
	got.marked += s->marked;
	got.asked += !!(s->flags & SEG_ACKREQ);
	got.psn++;
	got.n++;
}

static struct udp *start(void)
{
	const struct udp_config cfg = { deliver, NULL };
	struct udp *u;

	check_eq(fork_init(), 0);
	check_eq(guard_init(), 0);
	check_eq(udp_create(&cfg, &u), 0);
	memset(&got, 0, sizeof(got));
	return u;
}

static union ibv_gid host_at(uint8_t last) /* 127.0.0.@last */
{
	return gid_at(INADDR_LOOPBACK - 1 + last);
}

static struct dest *path(struct udp *u, uint8_t from, uint8_t to)
{
	struct udp_path p = {
		.net = { host_at(from), host_at(to) }, .mtu = MTU, .rqpn = QPN, .tclass = TOS
	};
	struct dest *d;

	check_eq(udp_dest(u, &p, &d), 0);
	return d;
}

static void send_middle(struct dest *d, uint32_t psn, uint32_t len, bool more)
{
	static uint8_t bytes[MTU];
	const struct seg s = { .op = OP_WRITE_MIDDLE,
			       .pkey = 0xffff,
			       .dqpn = QPN,
			       .psn = psn,
			       .flags = psn % 3 ? 0 : SEG_ACKREQ,
			       .len = len,
			       .data = bytes,
			       .more = more };

	memset(bytes, byte_of(psn), len);
	check_eq(dest_send(d, &s, NULL), 0);
}

static struct udp_counts counts(struct udp *u)
{
	struct udp_counts c;

	udp_count(u, &c);
	return c;
}

/* Until the two know each other; the number of packets sent. */
static uint32_t meet(struct udp *u, struct udp *v, struct dest *d)
{
	uint32_t n = 0;

	while (n < 1000 && !counts(u).trains) {
		send_middle(d, n++, MTU, true);
		send_middle(d, n++, MTU, false);
		while (still(got.n < n))
			udp_drain(v, 64, true);
		udp_drain(u, 64, true);
	}
	check_eq(got.wrong, 0);
	return n;
}

/* Full ones, short ones, one alone, in batches of all lengths. */
TEST(trains_arrive_as_the_packets_they_are_made_of)
{
	struct udp *u = start(), *v = start();
	struct dest *d = path(u, 1, 2), *back = path(v, 2, 1);
	uint32_t first = meet(u, v, d), psn = first;
	struct udp_counts c;

	for (uint32_t batch = 1; psn < first + PACKETS; batch++) {
		for (uint32_t i = 0; i < batch; i++, psn++)
			send_middle(d, psn, psn % 5 ? MTU : MTU - psn % 3 * 4, i + 1 < batch);
		while (still(got.n < psn))
			udp_drain(v, 8, true);
	}
	c = counts(v);
	check_eq(got.wrong, 0);
	check_eq(c.bad_icrc + c.malformed, 0);
	check_eq(c.received, psn);
	c = counts(u);
	check_eq(c.sent, psn);
	check_eq(c.unsent, 0);
	check(c.trains > 1);
	d->ops->put(d);
	back->ops->put(back);
	udp_destroy(u);
	udp_destroy(v);
}

/* Every third packet asks for an ACK; of those in one train the last. */
TEST(a_train_asks_for_one_ack)
{
	struct udp *u = start(), *v = start();
	struct dest *d = path(u, 1, 2), *back = path(v, 2, 1);
	uint32_t psn = meet(u, v, d), end = psn - psn % 12 + 12 + 12;
	unsigned int before;

	for (; psn < end - 12; psn++)
		send_middle(d, psn, MTU, false);
	while (still(got.n < psn))
		udp_drain(v, 64, true);
	before = got.asked;
	for (; psn < end; psn++)
		send_middle(d, psn, MTU, psn + 1 < end);
	while (still(got.n < psn))
		udp_drain(v, 64, true);
	check_eq(got.asked - before, 1);
	check_eq(got.wrong, 0);
	d->ops->put(d);
	back->ops->put(back);
	udp_destroy(u);
	udp_destroy(v);
}

/* UDP_SEGMENT is refused where a segment is longer than the device's MTU takes; here it is what no
 * path takes together: a socket without checksums. */
TEST(what_the_kernel_does_not_take_as_a_train_goes_alone)
{
	struct udp *u = start(), *v = start();
	struct dest *d = path(u, 1, 2), *back = path(v, 2, 1);
	uint32_t first = meet(u, v, d), psn = first;
	uint64_t trains = counts(u).trains;
	int on = 1, set = 0;

	for (int fd = 3; fd < 256; fd++)
		set += !setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on));
	check(set > 0);
	for (; psn < first + 64; psn++)
		send_middle(d, psn, MTU, (psn + 1 - first) % 16);
	while (still(got.n < psn))
		udp_drain(v, 64, true);
	check_eq(got.wrong, 0);
	check_eq(counts(u).sent, psn);
	check_eq(counts(u).trains, trains);
	d->ops->put(d);
	back->ops->put(back);
	udp_destroy(u);
	udp_destroy(v);
}

static int plain(uint8_t last)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(UDP_ROCE_PORT) };
	union ibv_gid gid = host_at(last);
	int s = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	memcpy(&at.sin_addr, gid.raw + 12, 4);
	check_eq(bind(s, (struct sockaddr *)&at, sizeof(at)), 0);
	check_eq(setsockopt(s, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)), 0);
	return s;
}

/* The TOS of the next packet that is not a hello. */
static int next_tos(int s)
{
	uint8_t packet[PACKET];
	uint64_t control[16];
	struct iovec v = { packet, sizeof(packet) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control };

	do {
		m.msg_controllen = sizeof(control);
		while (still(recvmsg(s, &m, MSG_DONTWAIT) <= 0))
			;
	} while (packet[0] == OP_HELLO);
	return *CMSG_DATA(CMSG_FIRSTHDR(&m));
}

TEST(data_that_a_mark_can_slow_down_says_so)
{
	struct udp *u = start();
	int s = plain(2);
	struct dest *d = path(u, 1, 2);
	struct seg g = { .op = OP_ACKNOWLEDGE, .pkey = 0xffff, .dqpn = QPN };

	send_middle(d, 0, MTU, false);
	check_eq(next_tos(s), TOS | 2);
	check_eq(dest_send(d, &g, NULL), 0);
	check_eq(next_tos(s), TOS);
	g.op = SVC_UD | OP_SEND_ONLY;
	check_eq(dest_send(d, &g, NULL), 0);
	check_eq(next_tos(s), TOS);
	close(s);
	d->ops->put(d);
	udp_destroy(u);
}

TEST(a_mark_of_the_network_reaches_the_transport)
{
	struct udp *u = start(), *v = start();
	struct udp_path p = {
		.net = { host_at(1), host_at(2) }, .mtu = MTU, .rqpn = QPN, .tclass = TOS
	};
	union ibv_gid to = host_at(2);
	struct dest *d;

	check_eq(udp_listen(v, &to, 0), 0);
	for (uint32_t ecn = 0; ecn < 4; ecn++) {
		p.tclass = (uint8_t)(TOS | ecn);
		check_eq(udp_dest(u, &p, &d), 0);
		send_middle(d, ecn, MTU, false);
		while (still(got.n <= ecn))
			udp_drain(v, 64, true);
		check_eq(got.marked, ecn == 3);
		d->ops->put(d);
	}
	udp_destroy(u);
	udp_destroy(v);
}

RUN_TESTS(unit_test(trains_arrive_as_the_packets_they_are_made_of),
	  unit_test(a_train_asks_for_one_ack),
	  unit_test(what_the_kernel_does_not_take_as_a_train_goes_alone),
	  unit_test(data_that_a_mark_can_slow_down_says_so),
	  unit_test(a_mark_of_the_network_reaches_the_transport))
