// SPDX-License-Identifier: MIT
/* A sender that is none of ours, and damage of the worst kind: the ICRC is what it would be with
 * another IPv4 identification, so that solving for it always succeeds. */
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "net/gid_netns.h"
#include "net/gid.h"
#include "udp/udp.h"
#include "util/be.h"
#include "util/fork.h"
#include "util/guard.h"
#include "util/rand.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/opcode.h"
#include "wire/packet.h"

enum { IP = 20, UDP = 8, PAYLOAD = 64, BATCH = 16, FIRST_ID = 21932, HDR = IP + UDP };

static const uint8_t here[4] = { 127, 0, 0, 1 }, other[4] = { 127, 0, 0, 2 },
		     ours[4] = { 127, 0, 0, 3 };
static unsigned int got, wrong;

static void deliver(void *arg, const struct seg *s)
{
	(void)arg;
	got++;
	wrong += s->psn & 1; /* the damaged ones are odd */
}

static void set_may_look(bool yes)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	check_eq(syscall(SYS_capget, &h, d), 0);
	d[0].effective &= ~(1U << CAP_NET_RAW);
	d[0].effective |= (unsigned int)yes << CAP_NET_RAW;
	check_eq(syscall(SYS_capset, &h, d), 0);
}

static struct udp *start(bool may_look)
{
	const struct udp_config cfg = { .deliver = deliver };
	struct udp *u;
	union ibv_gid local;

	got = wrong = 0;
	gid_of_ipv4(here, &local);
	check_eq(udp_create(&cfg, &u), 0);
	set_may_look(may_look);
	check_eq(udp_listen(u, &local, 0), 0);
	return u;
}

static void stop(struct udp *u)
{
	udp_destroy(u);
	set_may_look(true);
}

/* UD SEND ONLY from @from; its ICRC is that of identification @says. */
static size_t build(uint8_t *b, const uint8_t *from, uint32_t psn, uint16_t id, uint16_t says)
{
	struct pkt p = { .opcode = SVC_UD | OP_SEND_ONLY,
			 .pkey = 0xffff,
			 .dqpn = 0x123456,
			 .psn = psn,
			 .payload_len = PAYLOAD };
	size_t len;
	uint32_t crc;

	memset(b, 0, HDR);
	memset(b + HDR + BTH_LEN + DETH_LEN, (int)psn, PAYLOAD);
	check_eq(wire_build(&p, b + HDR, 200, &len), 0);
	b[0] = 0x45;
	put_be16(b + 2, (uint16_t)(HDR + len));
	put_be16(b + 4, says);
	b[6] = 0x40;
	b[8] = 64;
	b[9] = IPPROTO_UDP;
	memcpy(b + 12, from, 4);
	memcpy(b + 16, here, 4);
	put_be16(b + IP, 50000);
	put_be16(b + IP + 2, UDP_ROCE_PORT);
	put_be16(b + IP + 4, (uint16_t)(UDP + len));
	check_eq(icrc_packet(b, HDR + len, &crc), 0);
	icrc_put(b + HDR + len - ICRC_LEN, crc);
	put_be16(b + 4, id);
	return HDR + len;
}

/* @n good packets, each with a damaged one behind it; every identification is sent but 0. Returns
 * how many damaged ones were accepted. */
static unsigned int damaged_accepted(bool may_look, unsigned int n)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	struct udp *u = start(may_look);
	uint16_t id = FIRST_ID;
	struct rand r;
	uint8_t b[256];

	check(raw >= 0);
	memcpy(&to.sin_addr, here, 4);
	rand_init(&r, 1);
	for (uint32_t psn = 0; psn < 2 * n; psn++) {
		uint16_t says = id;
		size_t len;

		while (psn & 1 && (says == id || !says))
			says = (uint16_t)rand_below(&r, 65536);
		len = build(b, other, psn, id, says);
		check_eq(sendto(raw, b, len, 0, (struct sockaddr *)&to, sizeof(to)), len);
		id += id == 65535 ? 2 : 1;
		while (psn % BATCH == BATCH - 1 && udp_drain(u, BATCH, true))
			;
	}
	close(raw);
	stop(u);
	printf("# %u of %u damaged ones accepted, %u good ones not\n", wrong, n, n - (got - wrong));
	check(got - wrong <= n);
	if (may_look)
		check_eq(got - wrong, n);
	else
		check(got - wrong > n - n / 1000);
	return wrong;
}

TEST(who_may_look_accepts_none_that_is_damaged)
{
	check_eq(damaged_accepted(true, 100000), 0);
}

/* Of all solutions those near the last are believed: 2 x 64 + 1 of 65536. */
TEST(others_accept_what_the_sender_could_have_used)
{
	unsigned int accepted = damaged_accepted(false, 100000); /* 197 expected */

	check(accepted > 100 && accepted < 300);
}

static bool one_comes_at_once;

static void send_raw(const uint8_t *b, size_t len)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);

	memcpy(&to.sin_addr, here, 4);
	check_eq(sendto(raw, b, len, 0, (struct sockaddr *)&to, sizeof(to)), len);
	close(raw);
}

/* In place of the library's: a peer that has waited for the port. */
int bind(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
	int ret = (int)syscall(SYS_bind, fd, addr.__sockaddr__, len);
	uint8_t b[256];

	if (!ret && one_comes_at_once && addr.__sockaddr_in__->sin_port == htons(UDP_ROCE_PORT))
		send_raw(b, build(b, other, 0, FIRST_ID, FIRST_ID));
	return ret;
}

TEST(the_first_packet_is_taken)
{
	struct udp *u;

	one_comes_at_once = true;
	u = start(true);
	one_comes_at_once = false;
	udp_drain(u, 1, true);
	check_eq(got, 1);
	stop(u);
}

static unsigned int raw_sockets(void)
{
	FILE *f = fopen("/proc/net/raw", "r");
	char line[512];
	unsigned int n = 0;

	check(f != NULL);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, ": 0100007F:0011 ") != NULL; /* 127.0.0.1, UDP */
	fclose(f);
	return n;
}

/* By a plain socket, as ours: with identification 0, which a raw one cannot send. */
static void send_ours(uint32_t psn)
{
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_port = htons(50000) }, to = from;
	int fd = socket(AF_INET, SOCK_DGRAM, 0), whole = IP_PMTUDISC_DO;
	uint8_t b[256];
	size_t len = build(b, ours, psn, 0, 0) - HDR;

	memcpy(&from.sin_addr, ours, 4);
	memcpy(&to.sin_addr, here, 4);
	to.sin_port = htons(UDP_ROCE_PORT);
	check_eq(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole)), 0);
	check_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	check_eq(sendto(fd, b + HDR, len, 0, (struct sockaddr *)&to, sizeof(to)), len);
	close(fd);
}

/* Each raw socket gets a copy of each packet: the more processes of ours, the more copies. */
TEST(who_meets_no_other_stack_does_not_look)
{
	struct udp *u = start(true);
	uint8_t b[256];

	send_ours(0);
	while (udp_drain(u, BATCH, true))
		;
	check_eq(got, 1);
	check_eq(raw_sockets(), 0);
	send_raw(b, build(b, other, 2, FIRST_ID, FIRST_ID));
	while (udp_drain(u, BATCH, true))
		;
	check_eq(got, 2);
	check_eq(raw_sockets(), 1);
	stop(u);
	check_eq(raw_sockets(), 0);
}

static int begin(void **state)
{
	(void)state;
	netns_enter();
	netns_up("lo", true);
	return fork_init() || guard_init();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(the_first_packet_is_taken),
		unit_test(who_meets_no_other_stack_does_not_look),
		unit_test(who_may_look_accepts_none_that_is_damaged),
		unit_test(others_accept_what_the_sender_could_have_used),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
