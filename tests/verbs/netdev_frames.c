// SPDX-License-Identifier: MIT
/* Frames of RAW_PACKET queue pairs and the network: the other end of a veth is the wire. Needs a
 * network namespace that it may change. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

/* --- what senders leave to their adapters: to cut, to sum --- */

enum { GSO_UDP_L4 = 5, STEP = 1400, ETH = 14 };

static const struct left {
	uint8_t gso, ip, proto;
	uint16_t vlan, len;
} lefts[] = {
	{ VIRTIO_NET_HDR_GSO_TCPV4, 4, IPPROTO_TCP, 0, 60000 },
	{ VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_ECN, 4, IPPROTO_TCP, 0x2005, 9000 },
	{ VIRTIO_NET_HDR_GSO_TCPV6, 6, IPPROTO_TCP, 0, 14 * STEP },
	{ GSO_UDP_L4, 4, IPPROTO_UDP, 0, 9000 },
	{ GSO_UDP_L4, 6, IPPROTO_UDP, 0x2005, 3 * STEP + 1 },
	{ VIRTIO_NET_HDR_GSO_NONE, 4, IPPROTO_TCP, 0, STEP },
	{ VIRTIO_NET_HDR_GSO_NONE, 4, IPPROTO_UDP, 0x2005, 77 },
	{ VIRTIO_NET_HDR_GSO_NONE, 6, IPPROTO_UDP, 0, 78 },
};

static uint32_t add(const uint8_t *p, size_t n, uint32_t acc)
{
	for (size_t i = 0; i < n; i++)
		acc += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (acc >> 16)
		acc = (acc & 0xffff) + (acc >> 16);
	return acc;
}

/* Of the @len bytes that follow the IP header at @ip. */
static uint32_t pseudo(const uint8_t *ip, uint8_t proto, size_t len)
{
	return add(ip[0] >> 4 == 4 ? ip + 12 : ip + 8, ip[0] >> 4 == 4 ? 8 : 32,
		   (uint32_t)len + proto);
}

static size_t ip_at(const uint8_t *frame)
{
	return frame[12] == 0x81 ? ETH + 4 : ETH;
}

static size_t l4_at(const uint8_t *frame)
{
	return ip_at(frame) + (frame[ip_at(frame)] >> 4 == 4 ? 20 : 40);
}

/* Hands it to the kernel as a stack does, to be cut by the adapter. */
static void send_left(const struct left *l, const struct ether_frame *f)
{
	static uint8_t bytes[1 << 17];
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int s = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), one = 1;
	struct virtio_net_hdr h = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_type = l->gso };
	uint8_t *frame = bytes + sizeof(h), *sum;
	size_t len = ether_build(f, frame), l4 = l4_at(frame);
	uint32_t partial = pseudo(frame + ip_at(frame), l->proto, len - l4);

	h.csum_start = (uint16_t)l4;
	h.csum_offset = l->proto == IPPROTO_TCP ? 16 : 6;
	if (l->gso) {
		h.gso_size = STEP;
		h.hdr_len = (uint16_t)(len - f->len);
	}
	sum = frame + l4 + h.csum_offset;
	sum[0] = (uint8_t)(partial >> 8);
	sum[1] = (uint8_t)partial;
	memcpy(bytes, &h, sizeof(h));
	at.sll_ifindex = (int)if_nametoindex("softhca1");
	want(s >= 0 && !bind(s, (struct sockaddr *)&at, sizeof(at)));
	want_eq(setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)), 0);
	want_eq(send(s, bytes, sizeof(h) + len, 0), sizeof(h) + len);
	close(s);
}

static void want_sums(const struct ether_got *got, uint8_t proto)
{
	const uint8_t *ip = got->p + ip_at(got->p), *l4 = got->p + l4_at(got->p);
	size_t len = got->len - (size_t)(l4 - got->p);

	want_eq(add(l4, len, pseudo(ip, proto, len)), 0xffff);
	want(ip[0] >> 4 == 6 || got->wc_flags & IBV_WC_IP_CSUM_OK);
}

/* The frames that are cut from it, or the frame. */
static void want_left(struct ether *e, const struct left *l, const struct ether_frame *f)
{
	uint8_t expected[STEP];
	struct ether_got got;
	uint32_t done = 0, n, head;

	for (; done < l->len; done += n) {
		n = l->len - done < STEP ? l->len - done : STEP;
		ether_want(e, &got);
		head = (uint32_t)l4_at(got.p) + (l->proto == IPPROTO_TCP ? 20 : 8);
		want_eq(got.len, head + n);
		want_eq(got.p[12] == 0x81, f->vlan != 0);
		want(!f->vlan || (got.p[14] << 8 | got.p[15]) == f->vlan);
		want_sums(&got, l->proto);
		pattern_fill(expected, n, 1, done);
		want(!memcmp(got.p + head, expected, n));
		if (l->proto == IPPROTO_TCP)
			want_eq(got.p[head - 14] << 8 | got.p[head - 13], done);
		ether_recv(e, 1);
	}
}

static void frames_are_as_long_as_on_a_wire(int arg)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ibv_flow *flow;
	struct ether e;

	(void)arg;
	make_wire();
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	ether_recv(&e, ETHER_SLOTS);
	ether_spec_dst(&r, 1);
	flow = ether_steer(&e, &r);
	for (unsigned int i = 0; i < sizeof(lefts) / sizeof(lefts[0]); i++) {
		struct ether_frame f = {
			.src = 9, .dst = 1, .ip = lefts[i].ip, .from = 2, .to = 3
		};

		f.proto = lefts[i].proto;
		f.vlan = lefts[i].vlan;
		f.len = lefts[i].len;
		send_left(&lefts[i], &f);
		want_left(&e, &lefts[i], &f);
	}
	ether_want_none(&e);
	want_eq(ibv_destroy_flow(flow), 0);
	ether_close(&e);
	cut_wire();
}

enum { STREAM = 60000, PORT = 7000 };

/* Both sides wait until the other has come as far. */
static void meet(int fd)
{
	char c = 0;

	if (write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1)
		die("the other side");
}

/* A host of its own behind the wire, which sends a stream to 10.9.0.1. */
static void streaming_host(int fd)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	static uint8_t bytes[STREAM];
	int s;

	pattern_fill(bytes, sizeof(bytes), 1, 0);
	if (unshare(CLONE_NEWNET))
		die("unshare");
	meet(fd);
	meet(fd); /* here the wire's end is here */
	run("ip addr add 10.9.0.2/24 dev softhca1");
	run("ip link set softhca1 up");
	meet(fd);
	meet(fd); /* here the queue pair is there */
	s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	to.sin_addr.s_addr = htonl(0x0a090001);
	if (connect(s, (struct sockaddr *)&to, sizeof(to)) ||
	    write(s, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
		die("the stream");
	meet(fd); /* without us the wire is no more */
	_exit(0);
}

static pid_t make_host(int *fd)
{
	int ends[2];
	char command[64];
	pid_t pid;

	want_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	pid = fork();
	want(pid >= 0);
	if (!pid)
		streaming_host(ends[1]);
	*fd = ends[0];
	meet(*fd);
	snprintf(command, sizeof(command), "ip link set softhca1 netns %d", (int)pid);
	run(command);
	meet(*fd);
	meet(*fd);
	return pid;
}

static int listener(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	run("ip addr add 10.9.0.1/24 dev softhca0");
	want(!bind(s, (struct sockaddr *)&at, sizeof(at)) && !listen(s, 1));
	return s;
}

static void read_stream(int s)
{
	static uint8_t bytes[STREAM];
	int c = accept(s, NULL, NULL);

	want_eq(recv(c, bytes, sizeof(bytes), MSG_WAITALL), STREAM);
	close(c);
}

/* Its payload bytes that no frame before had. @first: the stream's first sequence number. */
static unsigned int new_bytes(const struct ether_got *got, uint32_t *first)
{
	static uint8_t have[STREAM], bytes[STREAM];
	const uint8_t *tcp = got->p + l4_at(got->p);
	uint32_t seq = (uint32_t)tcp[4] << 24 | tcp[5] << 16 | tcp[6] << 8 | tcp[7];
	uint32_t total = got->p[ETH + 2] << 8 | got->p[ETH + 3], head = 20 + (tcp[12] >> 4) * 4U;
	unsigned int n = 0;

	if (tcp[13] & 2)
		*first = seq + 1;
	want(total >= head && ETH + total == got->len);
	if (total == head)
		return 0;
	want(seq - *first < STREAM && total - head <= STREAM - (seq - *first));
	pattern_fill(bytes, sizeof(bytes), 1, 0);
	want(!memcmp(got->p + ETH + head, bytes + (seq - *first), total - head));
	for (uint32_t i = 0; i < total - head; i++) {
		n += !have[seq - *first + i];
		have[seq - *first + i] = 1;
	}
	return n;
}

static void a_stream_passes_frame_by_frame(int arg)
{
	struct ibv_flow_spec_eth to_us = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(to_us) };
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ether_got got;
	struct ibv_flow *flow;
	struct ether e;
	unsigned int n = 0;
	uint32_t first = 0;
	int fd, s, status;
	pid_t pid;

	(void)arg;
	make_wire();
	s = listener();
	pid = make_host(&fd);
	peer_open(&dev);
	ether_open(&dev, 0, &e);
	ether_recv(&e, ETHER_SLOTS);
	memcpy(to_us.val.dst_mac, own_mac, 6);
	memset(to_us.mask.dst_mac, 0xff, 6);
	ether_spec(&r, &to_us, sizeof(to_us));
	flow = ether_steer(&e, &r);
	meet(fd);
	read_stream(s);
	while (n < STREAM) {
		ether_want(&e, &got);
		want(got.len <= ETH + 1500);
		if (got.p[12] == 8 && !got.p[13] && got.p[ETH + 9] == IPPROTO_TCP) {
			want_sums(&got, IPPROTO_TCP);
			n += new_bytes(&got, &first);
		}
		ether_recv(&e, 1);
	}
	want_eq(ibv_destroy_flow(flow), 0);
	ether_close(&e);
	close(s);
	cut_wire();
	meet(fd);
	want(waitpid(pid, &status, 0) == pid && !status);
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
	CASE(frames_are_as_long_as_on_a_wire),
	CASE(a_stream_passes_frame_by_frame),
	CASE(an_interface_that_is_made_anew_is_used),
	CASE(without_the_right_frames_stay_here),
};

int main(void)
{
	return CASES_RUN(list);
}
