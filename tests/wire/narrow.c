// SPDX-License-Identifier: MIT
/* For narrow.py: narrow FRIEND, another host's network namespace (a path). The MTU of this host's
 * interface is lowered under an RC connection that works: its kernel refuses packets that are
 * longer (EMSGSIZE). What fits goes on; the rest ends in the queue pair's time, and the reason
 * names the MTU; and where that is raised before, nothing has happened. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum {
	WIDE = 4300, /* MTUs of the interface */
	NARROW = 2000, /* IPv6 needs 1280 */
	LEN = 1 << 16, /* of a message, in full packets */
	SHORT = 64,
	MESSAGES = 3, /* that wait for each other */
	TIMEOUT = 14, /* 4.096 us * 2^14: a try takes up to four times as long */
	RETRIES = 7,
	IPV6_GID = 5,
	PATIENCE_MS = 60000,
};

static const char *friend_net;
static struct duo duo;

/* Of eth0 in the namespace of who calls. */
static void set_mtu(int mtu)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { .ifr_name = "eth0", .ifr_mtu = mtu };

	if (fd < 0 || ioctl(fd, SIOCSIFMTU, &r))
		die("SIOCSIFMTU");
	close(fd);
}

/* The device hears of it a moment later, and takes no path_mtu before that does not fit. */
static void widen(struct side *s)
{
	struct ibv_port_attr port;

	set_mtu(WIDE);
	do
		want_eq(ibv_query_port(s->dev.ctx, 1, &port), 0);
	while (port.active_mtu != IBV_MTU_4096);
}

static struct duo_answer far_narrows(struct side *s, const struct duo_order *o)
{
	(void)s;
	(void)o;
	set_mtu(NARROW);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_widens(struct side *s, const struct duo_order *o)
{
	(void)o;
	widen(s);
	return (struct duo_answer){ .found = true };
}

static void begin(uint8_t gid_index, enum ibv_mtu mtu)
{
	struct duo_opts o = {
		.qp = { .type = IBV_QPT_RC, .mtu = mtu, .timeout = TIMEOUT, .retry = RETRIES },
		.bytes = LEN,
		.far_netns = friend_net
	};

	peer_gid_index = gid_index;
	said_begin();
	duo_open(&duo, &o);
}

static void post(enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, op, &sg, len);

	want_eq(duo_post(&duo, &wr), 0);
}

static struct ibv_wc ended(void)
{
	struct ibv_wc wc;

	want(peer_poll(duo.near.ep.scq, &wc, PATIENCE_MS));
	return wc;
}

static void succeeds(void)
{
	struct ibv_wc wc = ended();

	if (wc.status)
		fail("%s, vendor_err 0x%x", ibv_wc_status_str(wc.status), wc.vendor_err);
}

/* @len bytes get there, and none is wrong. */
static void writes(uint32_t len, uint64_t pattern)
{
	peer_note("WRITE of %u B of pattern %u", len, (unsigned int)pattern);
	pattern_fill(duo.near.mem, len, pattern, 0);
	post(IBV_WR_RDMA_WRITE, len);
	succeeds();
	want(duo_tell(&duo, (struct duo_order){ .op = DUO_CHECK, .len = len, .id = pattern })
		     .found);
}

/* Packets of this process that the kernel has refused, as `softhca counters` says. */
static unsigned long unsent(void)
{
	char line[512];
	unsigned long n = 0;
	bool found = false;
	FILE *f;

	snprintf(line, sizeof(line), "%s/bin/softhca counters %d", getenv("SOFTHCA_PREFIX"),
		 (int)getpid());
	f = popen(line, "re");
	while (f && fgets(line, sizeof(line), f))
		found |= sscanf(line, "unsent %lu", &n) == 1;
	if (!f || pclose(f) || !found)
		fail("softhca counters says nothing of unsent packets");
	return n;
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void it_ends(void)
{
	uint64_t begun = now_us(), least = (RETRIES + 1) * ((4096 << TIMEOUT) / 1000);
	struct ibv_wc wc;

	post(IBV_WR_RDMA_WRITE, LEN);
	wc = ended();
	want_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
	want_eq(wc.vendor_err, 0x81);
	want(now_us() - begun >= least);
	said_want(SAID_NEAR,
		  "RDMA WRITE of %u B (wr_id 0x1) on QP 0x%x: no answer from QP 0x%x after %u "
		  "tries of 4.096 us * 2^%u (retry_cnt %u): the kernel of this host refused # "
		  "packets (%s); they are longer than the MTU of the interface: raise it, or lower "
		  "path_mtu",
		  LEN, duo.near.ep.qp->qp_num, duo.near.ep.theirs.qpn, RETRIES + 1, TIMEOUT,
		  RETRIES, strerror(EMSGSIZE));
}

static void what_fits_goes_on_and_the_rest_ends(int gid_index)
{
	set_mtu(WIDE);
	begin((uint8_t)gid_index, IBV_MTU_4096);
	writes(LEN, 1);
	set_mtu(NARROW);
	for (int i = 0; i < MESSAGES; i++)
		writes(SHORT, 2);
	it_ends();
	widen(&duo.near); /* the one remedy */
	duo_reconnect(&duo);
	writes(LEN, 3);
	duo_close(&duo);
}

/* The other one. */
static void a_lower_path_mtu_fits(int gid_index)
{
	set_mtu(NARROW);
	begin((uint8_t)gid_index, IBV_MTU_1024);
	writes(LEN, 1);
	duo_close(&duo);
	set_mtu(WIDE);
}

/* Refused packets are lost, as others are: they leave again. */
static void a_moment_costs_nothing(int gid_index)
{
	unsigned long before;
	struct ibv_wc wc;

	set_mtu(WIDE);
	begin((uint8_t)gid_index, IBV_MTU_4096);
	writes(LEN, 1);
	before = unsent();
	set_mtu(NARROW);
	pattern_fill(duo.near.mem, LEN, 2, 0);
	for (int i = 0; i < MESSAGES; i++)
		post(IBV_WR_RDMA_WRITE, LEN);
	while (unsent() == before)
		want(!peer_poll(duo.near.ep.scq, &wc, 0));
	set_mtu(WIDE);
	for (int i = 0; i < MESSAGES; i++)
		succeeds();
	want(duo_tell(&duo, (struct duo_order){ .op = DUO_CHECK, .len = LEN, .id = 2 }).found);
	writes(LEN, 3);
	want_eq(duo_tell(&duo, (struct duo_order){ .op = DUO_STATE }).value, IBV_QPS_RTS);
	duo_close(&duo);
}

/* The answers of a READ are refused there; who waits for them hears nothing of it. */
static void where_the_peer_is_narrow_it_ends_too(int gid_index)
{
	struct ibv_wc wc;

	set_mtu(WIDE);
	begin((uint8_t)gid_index, IBV_MTU_4096);
	writes(LEN, 1);
	duo_do(&duo, far_narrows, 0, 0, 0);
	post(IBV_WR_RDMA_READ, LEN);
	wc = ended();
	want_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
	want_eq(duo_tell(&duo, (struct duo_order){ .op = DUO_STATE }).value, IBV_QPS_RTS);
	duo_do(&duo, far_widens, 0, 0, 0);
	duo_reconnect(&duo);
	peer_note("READ behind it");
	memset(duo.near.mem, 0, LEN);
	post(IBV_WR_RDMA_READ, LEN);
	succeeds();
	want_eq(pattern_check_told(duo.near.mem, LEN, 1, 0), LEN);
	duo_close(&duo);
}

static const struct test_case cases[] = {
	{ "what_fits_goes_on_and_the_rest_ends (IPv4)", what_fits_goes_on_and_the_rest_ends,
	  PEER_GID_INDEX },
	{ "what_fits_goes_on_and_the_rest_ends (IPv6)", what_fits_goes_on_and_the_rest_ends,
	  IPV6_GID },
	{ "a_lower_path_mtu_fits (IPv4)", a_lower_path_mtu_fits, PEER_GID_INDEX },
	{ "a_moment_costs_nothing (IPv4)", a_moment_costs_nothing, PEER_GID_INDEX },
	{ "a_moment_costs_nothing (IPv6)", a_moment_costs_nothing, IPV6_GID },
	{ "where_the_peer_is_narrow_it_ends_too (IPv4)", where_the_peer_is_narrow_it_ends_too,
	  PEER_GID_INDEX },
};

int main(int argc, char **argv)
{
	want_eq(argc, 2);
	friend_net = argv[1];
	return CASES_RUN(cases);
}
