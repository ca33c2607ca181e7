// SPDX-License-Identifier: MIT
/* What hosts tell each other of themselves. 127.0.0.1 and 127.0.0.2 are two hosts, each with a link
 * of its own; a plain socket on one of their addresses is a stack that is not ours. */
#include <linux/capability.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "test.h"
#include "udp/udp.h"
#include "udp/udp_hello.h"
#include "udp/udp_icrc.h"
#include "udp/udp_state.h"
#include "udp_gid.h"
#include "util/clock.h"
#include "util/fork.h"
#include "util/guard.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

enum { ONE = 0x7f000001, OTHER = 0x7f000002, MTU = 1024, FOREIGN_ID = 5 };
enum { SPORT = 30000 /* no port that a link has by itself */ };
enum { PACKET = 128 };

static unsigned int got;

static void deliver(void *arg, const struct seg *s)
{
	(void)arg;
	check_eq(s->op, SVC_UD | OP_SEND_ONLY);
	got++;
}

/* Who sees the identifications need not solve for them. */
static void look_away(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	check_eq(syscall(SYS_capget, &h, d), 0);
	d[0].effective &= ~(1U << CAP_NET_RAW);
	check_eq(syscall(SYS_capset, &h, d), 0);
}

static struct udp *start(void)
{
	const struct udp_config cfg = { deliver, NULL };
	struct udp *u;

	check_eq(fork_init(), 0);
	check_eq(guard_init(), 0);
	look_away();
	check_eq(udp_create(&cfg, &u), 0);
	got = 0;
	return u;
}

static struct dest *path(struct udp *u, uint32_t from, uint32_t to)
{
	struct udp_path p = { .net = { gid_at(from), gid_at(to) }, .mtu = MTU, .rqpn = 9 };
	struct dest *d;

	check_eq(udp_dest(u, &p, &d), 0);
	return d;
}

static void send_one(struct dest *d)
{
	const struct seg s = { .op = SVC_UD | OP_SEND_ONLY, .pkey = 0xffff, .dqpn = 9 };

	check_eq(dest_send(d, &s, NULL), 0);
}

static struct udp_counts counts(struct udp *u)
{
	struct udp_counts c;

	udp_count(u, &c);
	return c;
}

static int stranger(uint32_t address)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(SPORT) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	at.sin_addr.s_addr = htonl(address);
	check_eq(bind(s, (struct sockaddr *)&at, sizeof(at)), 0);
	return s;
}

static size_t sealed(const struct pkt *p, uint32_t from, uint32_t to, uint16_t id, uint8_t *out)
{
	union ibv_gid sgid = gid_at(from), dgid = gid_at(to);
	struct grh g = { .next_hdr = GRH_NEXT_UDP };
	uint8_t area[GRH_LEN];
	size_t len;

	memcpy(g.sgid, sgid.raw, sizeof(sgid));
	memcpy(g.dgid, dgid.raw, sizeof(dgid));
	grh_build(&g, area);
	check_eq(wire_build(p, out, PACKET, &len), 0);
	udp_index_put(out, id);
	icrc_put(out + len - ICRC_LEN, udp_icrc(area, SPORT, UDP_ROCE_PORT, out, len));
	udp_index_put(out, 0);
	return len;
}

static void put(int s, uint32_t to, const uint8_t *packet, size_t len)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(UDP_ROCE_PORT) };

	at.sin_addr.s_addr = htonl(to);
	check_eq(sendto(s, packet, len, 0, (struct sockaddr *)&at, sizeof(at)), len);
}

/* As another stack sends: with an identification that counts. */
static void put_foreign(int s, uint32_t from, uint32_t to)
{
	const struct pkt p = { .opcode = SVC_UD | OP_SEND_ONLY, .pkey = 0xffff, .dqpn = 9 };
	uint8_t packet[PACKET];
	size_t len = sealed(&p, from, to, FOREIGN_ID, packet);

	put(s, to, packet, len);
}

static unsigned int drained(struct udp *u)
{
	unsigned int before = got;

	udp_drain(u, 64, true);
	return got - before;
}

/* @u sends to @v until it knows who that is. */
static void meet(struct udp *u, struct udp *v, struct dest *d, int foreign)
{
	for (int i = 0; i < 1000 && !counts(u).bad_icrc; i++) {
		send_one(d);
		udp_drain(v, 64, true);
		put_foreign(foreign, OTHER, ONE);
		udp_drain(u, 64, true);
	}
	check_eq(counts(u).bad_icrc, 1);
}

TEST(other_identifications_are_solved_for_until_the_peer_has_answered)
{
	struct udp *u = start(), *v = start();
	struct dest *d = path(u, ONE, OTHER), *back = path(v, OTHER, ONE);
	int foreign = stranger(OTHER);
	struct udp_counts c;

	put_foreign(foreign, OTHER, ONE);
	while (still(!drained(u)))
		;
	check_eq(counts(u).bad_icrc, 0);
	meet(u, v, d, foreign);
	send_one(back);
	while (still(!drained(u)))
		;
	c = counts(v);
	check_eq(c.bad_icrc + c.malformed, 0);
	close(foreign);
	d->ops->put(d);
	back->ops->put(back);
	udp_destroy(u);
	udp_destroy(v);
}

/* The first packets are refused, the peer is asked; nobody answers, so it is another one. */
TEST(another_stack_on_the_address_of_a_peer_is_heard_after_a_while)
{
	struct udp *u = start(), *v = start();
	struct dest *d = path(u, ONE, OTHER), *back = path(v, OTHER, ONE);
	int foreign = stranger(OTHER);

	meet(u, v, d, foreign);
	back->ops->put(back);
	udp_destroy(v);
	while (still(drained(u)))
		;
	put_foreign(foreign, OTHER, ONE);
	check_eq(drained(u), 0);
	do
		put_foreign(foreign, OTHER, ONE);
	while (still(!drained(u)));
	close(foreign);
	d->ops->put(d);
	udp_destroy(u);
}

/* Where the answers go: the socket that the questions come from. */
static size_t question(int s, uint8_t *out, struct sockaddr_in *from)
{
	socklen_t len = sizeof(*from);
	ssize_t n;

	do
		n = recvfrom(s, out, PACKET, MSG_DONTWAIT, (struct sockaddr *)from, &len);
	while (still(n < 0 || out[0] != OP_HELLO));
	check_eq(n, BTH_LEN + UDP_HELLO_LEN + ICRC_LEN);
	return (size_t)n;
}

static void answer(int s, const struct sockaddr_in *to, uint8_t *packet, size_t len)
{
	union ibv_gid sgid = gid_at(OTHER), dgid = gid_at(ONE);
	struct grh g = { .next_hdr = GRH_NEXT_UDP };
	uint8_t area[GRH_LEN];

	memcpy(g.sgid, sgid.raw, sizeof(sgid));
	memcpy(g.dgid, dgid.raw, sizeof(dgid));
	grh_build(&g, area);
	packet[BTH_LEN + 1] = 1;
	icrc_put(packet + len - ICRC_LEN,
		 udp_icrc(area, UDP_ROCE_PORT, ntohs(to->sin_port), packet, len));
	check_eq(sendto(s, packet, len, 0, (const struct sockaddr *)to, sizeof(*to)), len);
}

static int impostor(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(UDP_ROCE_PORT) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	at.sin_addr.s_addr = htonl(OTHER);
	check_eq(bind(s, (struct sockaddr *)&at, sizeof(at)), 0);
	return s;
}

enum { BUDGET_AT = BTH_LEN + 8, NUMBER_AT = BTH_LEN + 16 };

TEST(an_answer_counts_that_repeats_the_number_of_the_question)
{
	struct udp *u = start();
	int s = impostor();
	struct dest *d = path(u, ONE, OTHER);
	uint32_t window = d->window;
	uint8_t packet[PACKET];
	struct sockaddr_in from;
	size_t len;

	send_one(d);
	len = question(s, packet, &from);
	put_be32(packet + BUDGET_AT, 10 * MTU);
	packet[NUMBER_AT] ^= 1;
	answer(s, &from, packet, len);
	while (still(!counts(u).malformed))
		udp_drain(u, 64, true);
	send_one(d);
	check_eq(d->window, window);
	packet[NUMBER_AT] ^= 1;
	answer(s, &from, packet, len);
	for (int i = 0; i < 1000 && d->window == window; i++) {
		udp_drain(u, 64, true);
		send_one(d);
	}
	check_eq(d->window, 10);
	put_be32(packet + BUDGET_AT, 0); /* a window of nothing would be a standstill */
	answer(s, &from, packet, len);
	for (int i = 0; i < 1000 && d->window == 10; i++) {
		udp_drain(u, 64, true);
		send_one(d);
	}
	check_eq(d->window, 8);
	close(s);
	d->ops->put(d);
	udp_destroy(u);
}

/* A receiver of UC sends no packet that would take the question along. */
TEST(a_side_that_only_receives_asks)
{
	struct udp *u = start();
	int s = impostor();
	struct dest *d = path(u, ONE, OTHER);
	uint8_t packet[PACKET];
	struct sockaddr_in from;
	size_t len;

	dest_get_to_know(d);
	len = question(s, packet, &from);
	check(!(dest_abilities(d) & DEST_ONE_PORT));
	answer(s, &from, packet, len);
	while (still(!counts(u).answers_received))
		udp_drain(u, 64, true);
	dest_get_to_know(d);
	check(dest_abilities(d) & DEST_ONE_PORT);
	check_eq(counts(u).sent, 0);
	close(s);
	d->ops->put(d);
	udp_destroy(u);
}

/* Whoever never answers is asked ten times, however much is sent to it. */
TEST(a_host_without_an_answer_is_left_in_peace)
{
	struct udp *u = start();
	int s = impostor();
	struct dest *d = path(u, ONE, OTHER);
	unsigned int questions = 0, rounds = 0;
	uint8_t packet[PACKET];

	while (still(questions < 10)) {
		send_one(d);
		while (recv(s, packet, sizeof(packet), MSG_DONTWAIT) > 0)
			questions += packet[0] == OP_HELLO;
	}
	for (uint64_t end = clock_now() + UINT64_C(500000000); clock_now() < end; rounds++) {
		send_one(d);
		while (recv(s, packet, sizeof(packet), MSG_DONTWAIT) > 0)
			check_ne(packet[0], OP_HELLO);
	}
	check(rounds > 0);
	close(s);
	d->ops->put(d);
	udp_destroy(u);
}

static void ask_as_impostor(int s, uint16_t abilities)
{
	const struct udp_hello h = { .abilities = abilities, .number = 77 };
	union ibv_gid sgid = gid_at(OTHER), dgid = gid_at(ONE);
	struct grh g = { .next_hdr = GRH_NEXT_UDP };
	uint8_t payload[UDP_HELLO_LEN], packet[PACKET], area[GRH_LEN];
	const struct pkt p = { .opcode = OP_HELLO,
			       .pkey = 0xffff,
			       .dqpn = UDP_HELLO_DQPN,
			       .payload = payload,
			       .payload_len = sizeof(payload) };
	size_t len;

	udp_hello_encode(&h, payload);
	memcpy(g.sgid, sgid.raw, sizeof(sgid));
	memcpy(g.dgid, dgid.raw, sizeof(dgid));
	grh_build(&g, area);
	check_eq(wire_build(&p, packet, sizeof(packet), &len), 0);
	icrc_put(packet + len - ICRC_LEN,
		 udp_icrc(area, UDP_ROCE_PORT, UDP_ROCE_PORT, packet, len));
	put(s, ONE, packet, len);
}

/* How many of @times grounds of a NAK leave. */
static unsigned int grounds(int s, struct dest *d, unsigned int times)
{
	static const uint8_t bytes[28];
	struct piece piece = { (uintptr_t)bytes, sizeof(bytes), 0 };
	const struct seg g = { .op = OP_GROUNDS,
			       .pkey = 0xffff,
			       .dqpn = 9,
			       .len = sizeof(bytes),
			       .npieces = 1,
			       .pieces = &piece };
	uint8_t packet[PACKET];
	unsigned int n = 0;

	for (unsigned int i = 0; i < times; i++)
		check_eq(dest_send(d, &g, NULL), 0);
	send_one(d); /* what left before it has come when it has */
	do {
		while (still(recv(s, packet, sizeof(packet), MSG_DONTWAIT) <= 0))
			;
		n += packet[0] == OP_GROUNDS;
	} while (packet[0] != (SVC_UD | OP_SEND_ONLY));
	return n;
}

/* Its question is enough: the first request of all may be refused. */
TEST(grounds_go_to_hosts_that_say_that_they_understand_them)
{
	struct udp *u = start();
	int s = impostor();
	struct dest *d = path(u, ONE, OTHER);

	check_eq(grounds(s, d, 3), 0);
	ask_as_impostor(s, UDP_REPORTS | UDP_TRAINS);
	while (still(counts(u).questions_received < 1))
		udp_drain(u, 64, true);
	check_eq(grounds(s, d, 3), 0);
	ask_as_impostor(s, UDP_GROUNDS);
	while (still(counts(u).questions_received < 2))
		udp_drain(u, 64, true);
	check_eq(grounds(s, d, 3), 3);
	close(s);
	d->ops->put(d);
	udp_destroy(u);
}

TEST(short_and_misplaced_hellos_are_malformed)
{
	static const uint8_t bytes[UDP_HELLO_LEN] = { 1, 1 }; /* an answer to nobody's question */
	struct pkt p = { .opcode = OP_HELLO, .pkey = 0xffff, .payload = bytes };
	struct udp *u = start();
	struct dest *d = path(u, ONE, OTHER);
	int s = stranger(OTHER);
	uint8_t packet[PACKET];
	unsigned int sent = 0;

	for (size_t n = 0; n <= UDP_HELLO_LEN; n += 4, sent++) {
		p.payload_len = n;
		put(s, ONE, packet, sealed(&p, OTHER, ONE, 0, packet));
	}
	while (still(counts(u).malformed < sent))
		udp_drain(u, 64, true);
	check_eq(counts(u).bad_icrc, 0);
	check_eq(got, 0);
	close(s);
	d->ops->put(d);
	udp_destroy(u);
}

static bool is_known(struct udp *u, uint32_t address)
{
	union ibv_gid gid = gid_at(address);

	return udp_peer_find(u, u->port[0], &gid);
}

TEST(a_full_table_forgets_who_was_not_used_for_longest)
{
	enum { FIRST = 0x7f010000 };
	struct udp *u = start();
	struct dest *kept = path(u, ONE, FIRST), *d;

	for (uint32_t i = 1; i < UDP_PEERS; i++) {
		d = path(u, ONE, FIRST + i);
		d->ops->put(d);
	}
	d = path(u, ONE, FIRST + 1); /* once more */
	d->ops->put(d);
	check_eq(u->n_peers, UDP_PEERS);
	for (uint32_t i = UDP_PEERS; i < UDP_PEERS + 3; i++) {
		d = path(u, ONE, FIRST + i);
		d->ops->put(d);
		check(is_known(u, FIRST + i));
	}
	check_eq(u->n_peers, UDP_PEERS);
	check(is_known(u, FIRST));
	check(is_known(u, FIRST + 1));
	for (uint32_t i = 2; i < 5; i++)
		check(!is_known(u, FIRST + i));
	check(is_known(u, FIRST + 5));
	kept->ops->put(kept);
	udp_destroy(u);
}

/* Which of our sockets is whose is our own affair. */
TEST(nobody_else_is_told_the_slot_behind_an_index)
{
	static const uint8_t bytes[UDP_HELLO_LEN] = { 1, 0, 0, 0, 0, 0, 0, 1 };
	const struct pkt p = {
		.opcode = OP_HELLO, .pkey = 0xffff, .payload = bytes, .payload_len = sizeof(bytes)
	};
	struct udp *u = start();
	struct dest *d = path(u, ONE, OTHER);
	int s = stranger(OTHER);
	uint8_t packet[PACKET];
	ssize_t n;

	put(s, ONE, packet, sealed(&p, OTHER, ONE, 0, packet));
	do {
		udp_drain(u, 64, true);
		n = recv(s, packet, sizeof(packet), MSG_DONTWAIT);
	} while (still(n < 0));
	check_eq(n, BTH_LEN + UDP_HELLO_LEN + ICRC_LEN);
	check_eq(packet[BTH_LEN + 1], 1);
	check_eq(get_be16(packet + BTH_LEN + UDP_HELLO_INDEX), 0);
	check_eq(get_be32(packet + BTH_LEN + 12), 0);
	close(s);
	d->ops->put(d);
	udp_destroy(u);
}

RUN_TESTS(unit_test(other_identifications_are_solved_for_until_the_peer_has_answered),
	  unit_test(another_stack_on_the_address_of_a_peer_is_heard_after_a_while),
	  unit_test(an_answer_counts_that_repeats_the_number_of_the_question),
	  unit_test(a_side_that_only_receives_asks),
	  unit_test(a_host_without_an_answer_is_left_in_peace),
	  unit_test(grounds_go_to_hosts_that_say_that_they_understand_them),
	  unit_test(short_and_misplaced_hellos_are_malformed),
	  unit_test(a_full_table_forgets_who_was_not_used_for_longest),
	  unit_test(nobody_else_is_told_the_slot_behind_an_index))
