// SPDX-License-Identifier: MIT
/* Frames of RAW_PACKET queue pairs and the network: the other end of a veth is the wire. Needs a
 * network namespace that it may change. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "verbs/ether.h"
#include "verbs/said.h"

static struct peer_dev dev;
static uint8_t own_mac[6];
static int wire; /* a packet socket at the other end */

static void run(const char *command)
{
	if (system(command))
		fail("%s", command);
}

static void make_wire(void)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	struct ifreq r = { .ifr_name = "softhca0" };

	run("ip link add softhca0 type veth peer name softhca1");
	run("sysctl -qw net.ipv6.conf.softhca0.disable_ipv6=1 net.ipv6.conf.softhca1.disable_ipv6=1"
	    " 2>/dev/null || true"); /* no frames but ours, where that can be said */
	run("ip link set softhca1 up");
	run("ip link set softhca0 up");
	/* Until the kernel has noticed that the other end is up it loses what the first sends; it
	 * is done with that once somebody else may change links. */
	run("until ip -o link show softhca1 | grep -q 'state UP'; do :; done");
	run("ip link set softhca1 up");
	setenv("SOFTHCA_DEVICES", "mlx5_0=softhca0", 1);
	wire = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	at.sll_ifindex = (int)if_nametoindex("softhca1");
	if (wire < 0 || bind(wire, (struct sockaddr *)&at, sizeof(at)))
		die("packet socket");
	if (ioctl(wire, SIOCGIFHWADDR, &r))
		die("SIOCGIFHWADDR");
	memcpy(own_mac, r.ifr_hwaddr.sa_data, 6);
}

static void cut_wire(void)
{
	close(wire);
	run("ip link del softhca0");
}

/* The next frame of our making on the wire; 0: none within @ms. */
static size_t from_wire(uint8_t *buf, size_t size, int ms)
{
	struct pollfd p = { .fd = wire, .events = POLLIN };
	struct sockaddr_ll from;
	socklen_t len = sizeof(from);

	while (poll(&p, 1, ms) == 1) {
		ssize_t n = recvfrom(wire, buf, size, 0, (struct sockaddr *)&from, &len);

		if (n >= 14 && from.sll_pkttype != PACKET_OUTGOING && buf[6] == 2 && !buf[7])
			return (size_t)n;
		len = sizeof(from);
	}
	return 0;
}

static void frames_reach_the_wire(int arg)
{
	struct ether_frame f = { .src = 9, .dst = 1, .ip = 4, .len = 300 };
	uint8_t sent[ETHER_ROOM], got[ETHER_ROOM];
	struct ether e;
	size_t len;

	(void)arg;
	said_begin();
	make_wire();
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	for (unsigned int i = 0; i < 20; i++) {
		f.sport = (uint16_t)i;
		len = ether_build(&f, sent);
		ether_send_bytes(&e, sent, len, 0);
		want_eq(from_wire(got, sizeof(got), 10000), len);
		want(!memcmp(got, sent, len));
	}
	len = ether_build(&f, sent);
	memcpy(sent, own_mac, 6); /* to the interface itself: not out of it */
	ether_send_bytes(&e, sent, len, 0);
	memset(sent, 0xff, sizeof(sent));
	ether_send_bytes(&e, sent, 1900, 0); /* longer than the MTU */
	said_want(SAID_NEAR, "frame of 1900 B: softhca0 has an MTU of 1500 B, so it is not sent "
			     "there; send shorter ones");
	f.sport = 77;
	len = ether_build(&f, sent);
	ether_send_bytes(&e, sent, len, 0);
	want_eq(from_wire(got, sizeof(got), 10000), len);
	want(!memcmp(got, sent, len)); /* nothing came between */
	ether_close(&e);
	cut_wire();
}

static void frames_come_from_the_wire(int arg)
{
	struct ether_frame f = { .src = 9, .dst = 1, .ip = 4, .len = 300 };
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	uint8_t sent[ETHER_ROOM];
	struct ether_got got;
	struct ibv_flow *flow;
	struct ether e;
	size_t len;

	(void)arg;
	make_wire();
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	ether_recv(&e, ETHER_SLOTS);
	ether_spec_dst(&r, 1);
	flow = ether_steer(&e, &r);
	for (unsigned int i = 0; i < 30; i++) {
		f.sport = (uint16_t)i;
		f.vlan = i & 1 ? 0x2005 : 0;
		len = ether_build(&f, sent);
		want_eq(send(wire, sent, len, 0), len);
		f.dst = 3; /* not ours */
		ether_build(&f, sent);
		want_eq(send(wire, sent, len, 0), len);
		f.dst = 1;
		ether_build(&f, sent);
		ether_want(&e, &got);
		want_eq(got.len, len);
		want(!memcmp(got.p, sent, len));
		want(got.wc_flags & IBV_WC_IP_CSUM_OK);
	}
	want_eq(ibv_destroy_flow(flow), 0);
	ether_close(&e);
	cut_wire();
}

static void await(enum ibv_event_type type)
{
	struct ibv_async_event ev;

	do {
		want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
		ibv_ack_async_event(&ev);
	} while (ev.event_type != type);
}

static void an_interface_that_is_made_anew_is_used(int arg)
{
	struct ether_frame f = { .src = 9, .dst = 1, .ip = 4, .len = 300 };
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	uint8_t sent[ETHER_ROOM], bytes[ETHER_ROOM];
	struct ether_got got;
	struct ibv_flow *flow;
	struct ether e;
	size_t len;

	(void)arg;
	said_begin();
	make_wire();
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	ether_recv(&e, 2);
	ether_spec_dst(&r, 1);
	flow = ether_steer(&e, &r);
	cut_wire();
	await(IBV_EVENT_DEVICE_FATAL);
	f.dst = 3; /* not ours */
	len = ether_build(&f, sent);
	ether_send_bytes(&e, sent, len, 0);
	said_want(SAID_NEAR,
		  "frame of %zu B: softhca0 does not take it (error %d), so it is not sent there; "
		  "see `ip link`",
		  len, ENXIO);
	make_wire();
	await(IBV_EVENT_PORT_ACTIVE);
	ether_send_bytes(&e, sent, len, 0);
	want_eq(from_wire(bytes, sizeof(bytes), 10000), len);
	want(!memcmp(bytes, sent, len));
	f.dst = 1;
	len = ether_build(&f, sent);
	want_eq(send(wire, sent, len, 0), len);
	ether_want(&e, &got);
	want_eq(got.len, len);
	want(!memcmp(got.p, sent, len));
	want_eq(ibv_destroy_flow(flow), 0);
	ether_close(&e);
	cut_wire();
}

static void drop_net_raw(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d))
		die("capget");
	d[0].effective &= ~(1U << CAP_NET_RAW);
	if (syscall(SYS_capset, &h, d))
		die("capset");
}

static void without_the_right_frames_stay_here(int arg)
{
	struct ether_frame f = { .src = 9, .dst = 1, .ip = 4, .len = 300 };
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	uint8_t got[ETHER_ROOM];
	struct ibv_flow *flow;
	struct ether e;

	(void)arg;
	said_begin();
	make_wire();
	drop_net_raw();
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	said_want(SAID_NEAR, "mlx5_0: no CAP_NET_RAW, so frames of RAW_PACKET QPs stay on this "
			     "host and do not reach softhca0; run with CAP_NET_RAW for that");
	ether_recv(&e, 1);
	ether_spec_dst(&r, 1);
	flow = ether_steer(&e, &r);
	ether_send(&e, &f);
	ether_want(&e, NULL);
	want(!from_wire(got, sizeof(got), 0));
	want_eq(ibv_destroy_flow(flow), 0);
	ether_close(&e);
	cut_wire();
}

static const struct test_case list[] = {
	CASE(frames_reach_the_wire),
	CASE(frames_come_from_the_wire),
	CASE(an_interface_that_is_made_anew_is_used),
	CASE(without_the_right_frames_stay_here),
};

int main(void)
{
	return CASES_RUN(list);
}
