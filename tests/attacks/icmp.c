// SPDX-License-Identifier: MIT
/* For icmp.py: icmp FRIEND BESIDE, two namespaces. The victim has an RC connection to a friend on
 * another host, and writes to its memory. A third host forges "fragmentation needed" (IPv6: "packet
 * too big") for each port that a queue pair may send from. The victim's kernel believes it; the
 * connection goes on with full packets, and so does the next one. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "net/gid.h"
#include "util/checksum.h"
#include "verbs/cases.h"
#include "verbs/duo.h"

enum {
	FIRST_PORT = 0xc000, /* of those that queue pairs send from */
	PORTS = 0x4000,
	ROCE_PORT = 4791,
	LEN = 1 << 16, /* of a message, in full packets */
	PATH_MTU = 4096,
	SMALL = 1280, /* the MTU that the forger says; IPv6 has none that is less */
	FOLLOWING = 32, /* messages */
	IPV6_GID = 5,
};

static const char *friend_net, *beside_net;

struct path { /* the victim's */
	union ibv_gid from, to;
};

/* --- the forger --- */

struct quoted4 { /* what the victim is said to have sent, behind the message's own header */
	struct icmphdr icmp;
	struct iphdr ip;
	struct udphdr udp;
};

struct quoted6 {
	struct icmp6_hdr icmp;
	struct ip6_hdr ip;
	struct udphdr udp;
};

static struct udphdr udp_from(uint16_t port)
{
	return (struct udphdr){ .source = htons(port),
				.dest = htons(ROCE_PORT),
				.len = htons(PATH_MTU) };
}

static void forge4(int fd, const struct path *p, uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct quoted4 q = { .icmp = { .type = ICMP_DEST_UNREACH, .code = ICMP_FRAG_NEEDED },
			     .ip = { .version = 4,
				     .ihl = 5,
				     .tot_len = htons(PATH_MTU),
				     .frag_off = htons(IP_DF),
				     .ttl = 64,
				     .protocol = IPPROTO_UDP },
			     .udp = udp_from(port) };
	uint64_t sum = checksum_start(false);

	memcpy(&q.ip.saddr, p->from.raw + 12, 4);
	memcpy(&q.ip.daddr, p->to.raw + 12, 4);
	memcpy(&to.sin_addr, p->from.raw + 12, 4);
	q.icmp.un.frag.mtu = htons(SMALL);
	sum = checksum_end(CHECKSUM_IP, checksum_more(CHECKSUM_IP, sum, &q, sizeof(q)));
	q.icmp.checksum = htons((uint16_t)sum);
	want_eq(sendto(fd, &q, sizeof(q), 0, (struct sockaddr *)&to, sizeof(to)), sizeof(q));
}

/* Linux makes the checksum. */
static void forge6(int fd, const struct path *p, uint16_t port)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6 };
	struct quoted6 q = { .icmp = { .icmp6_type = ICMP6_PACKET_TOO_BIG },
			     .udp = udp_from(port) };

	q.icmp.icmp6_mtu = htonl(SMALL);
	q.ip.ip6_vfc = 6 << 4;
	q.ip.ip6_plen = htons(PATH_MTU);
	q.ip.ip6_nxt = IPPROTO_UDP;
	q.ip.ip6_hlim = 64;
	memcpy(&q.ip.ip6_src, p->from.raw, 16);
	memcpy(&q.ip.ip6_dst, p->to.raw, 16);
	memcpy(&to.sin6_addr, p->from.raw, 16);
	want_eq(sendto(fd, &q, sizeof(q), 0, (struct sockaddr *)&to, sizeof(to)), sizeof(q));
}

static int forger(int fd, void *arg)
{
	struct path nothing = { 0 }, p;
	int s;

	(void)arg;
	peer_note("forger");
	want_eq(setns(open(beside_net, O_RDONLY | O_CLOEXEC), CLONE_NEWNET), 0);
	peer_swap(fd, &nothing, &p, sizeof(p));
	s = gid_is_ipv4(&p.from) ? socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP)
				 : socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6);
	want(s >= 0);
	for (unsigned int i = 0; i < PORTS; i++)
		(gid_is_ipv4(&p.from) ? forge4 : forge6)(s, &p, (uint16_t)(FIRST_PORT + i));
	peer_sync(fd);
	return 0;
}

/* --- the victim --- */

static struct duo duo;

static void write_one(void)
{
	struct ibv_wc wc;

	duo_send(&duo, IBV_WR_RDMA_WRITE, LEN);
	wc = duo_wc(&duo);
	if (wc.status)
		fail("%s, vendor_err 0x%x", ibv_wc_status_str(wc.status), wc.vendor_err);
}

static void goes_on(uint64_t pattern)
{
	pattern_fill(duo.near.mem, LEN, pattern, 0);
	for (int i = 0; i < FOLLOWING; i++)
		write_one();
	want(duo_tell(&duo, (struct duo_order){ .op = DUO_CHECK, .len = LEN, .id = pattern })
		     .found);
}

static bool forger_is_done(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

/* What the victim's kernel takes for the MTU of the path. */
static int kernels_mtu(const struct path *p)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(ROCE_PORT) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT) };
	bool v4 = gid_is_ipv4(&p->to);
	int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
	socklen_t len = sizeof(mtu);

	memcpy(&in.sin_addr, p->to.raw + 12, 4);
	memcpy(&in6.sin6_addr, p->to.raw, 16);
	want_eq(v4 ? connect(fd, (struct sockaddr *)&in, sizeof(in))
		   : connect(fd, (struct sockaddr *)&in6, sizeof(in6)),
		0);
	want_eq(getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &len),
		0);
	close(fd);
	return mtu;
}

static void attacked(const char *what, uint8_t gid_index)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC }, .bytes = LEN, .far_netns = friend_net };
	struct path p, nothing;
	pid_t pid;
	int fd;

	peer_gid_index = gid_index;
	pid = peer_fork(forger, NULL, &fd);
	duo_open(&duo, &o);
	peer_note("%s", what);
	p = (struct path){ duo.near.ep.mine.gid, duo.near.ep.theirs.gid };
	goes_on(1);
	want(kernels_mtu(&p) > PATH_MTU);
	peer_swap(fd, &p, &nothing, sizeof(p));
	do
		write_one();
	while (!forger_is_done(fd));
	peer_sync(fd);
	want_eq(peer_wait(pid), 0);
	want_eq(kernels_mtu(&p), SMALL); /* else the attack would prove nothing */
	goes_on(2);
	duo_reconnect(&duo);
	goes_on(3);
	duo_close(&duo);
	close(fd);
}

static void fragmentation_needed(int arg)
{
	(void)arg;
	attacked("IPv4", PEER_GID_INDEX);
}

static void packet_too_big(int arg)
{
	(void)arg;
	attacked("IPv6", IPV6_GID);
}

static const struct test_case cases[] = {
	CASE(fragmentation_needed),
	CASE(packet_too_big),
};

int main(int argc, char **argv)
{
	want_eq(argc, 3);
	friend_net = argv[1];
	beside_net = argv[2];
	return CASES_RUN(cases);
}
