// SPDX-License-Identifier: MIT
/* UD: datagrams of every size that fits, to a QP or to a group that it is in, each after one with
 * a Q_Key that is not the receiver's, which is not seen. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "interop/talk.h"

enum { IMM = 0x55667788, GRH = 40, GROUP_QPN = 0xffffff };

static const uint32_t qkeys[] = { 0x22222222, 0x11111111 };
static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

static bool is_v4(const union ibv_gid *gid)
{
	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static void ask(struct talk *t, const struct peer_addr *to)
{
	struct ibv_ah *ah = peer_ah(&t->dev, to);

	peer_sync(t->fd);
	for (uint32_t i = 0; i < TALK_SIZES; i++) {
		struct ibv_send_wr wr = { .opcode = i % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND };

		if (t->sizes[i] > t->mtu)
			continue;
		pattern_fill(t->mem + TALK_SOURCE, t->sizes[i], i, 0);
		wr.imm_data = htonl(IMM + i);
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = to->qpn;
		for (size_t k = 0; k < 2; k++) {
			wr.wr.ud.remote_qkey = qkeys[k];
			talk_ok(t, wr, TALK_SOURCE, t->sizes[i]);
		}
		peer_sync(t->fd);
	}
	ibv_destroy_ah(ah);
}

/* What stands before a datagram: an IPv6 header, or behind 20 bytes an IPv4 one. */
static void check_grh(const struct talk *t, const uint8_t *grh, const union ibv_gid *to)
{
	const union ibv_gid *from = &t->ep.theirs.gid;

	if (is_v4(from)) {
		talk_same("the IP version", grh[20] >> 4, 4);
		talk_same("the source", memcmp(grh + 32, from->raw + 12, 4), 0);
		talk_same("the destination", memcmp(grh + 36, to->raw + 12, 4), 0);
	} else {
		talk_same("the IP version", grh[0] >> 4, 6);
		talk_same("the source", memcmp(grh + 8, from, 16), 0);
		talk_same("the destination", memcmp(grh + 24, to, 16), 0);
	}
}

static void serve(struct talk *t, const union ibv_gid *to)
{
	unsigned int slot = 0;

	for (unsigned int i = 0; i < TALK_SIZES; i++)
		talk_recv(t, i, TALK_SLOT);
	peer_sync(t->fd);
	for (uint32_t i = 0; i < TALK_SIZES; i++) {
		size_t at = TALK_RECV + (size_t)slot * TALK_SLOT;
		struct ibv_wc wc;

		if (t->sizes[i] > t->mtu)
			continue;
		wc = talk_received(t);
		talk_same("the slot", wc.wr_id, slot++);
		talk_same("the length", wc.byte_len, GRH + t->sizes[i]);
		talk_same("having a GRH", wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
		talk_same("the sender", wc.src_qp, t->ep.theirs.qpn);
		if (i % 2)
			talk_same("the immediate", ntohl(wc.imm_data), IMM + i);
		check_grh(t, t->mem + at, to);
		talk_check(t, at + GRH, t->sizes[i], i);
		peer_sync(t->fd);
	}
}

static void ask_ud(struct talk *t)
{
	talk_connect(t);
	ask(t, &t->ep.theirs);
	talk_end(t);
}

static void serve_ud(struct talk *t)
{
	talk_connect(t);
	serve(t, &t->ep.mine.gid);
	talk_end(t);
}

/* 239.9.9.9 or ff15::909, as the addresses are. */
static union ibv_gid group_of(const struct talk *t)
{
	union ibv_gid gid = { .raw = { [0] = 0xff, [1] = 0x15, [14] = 9, [15] = 9 } };

	if (is_v4(&t->ep.mine.gid)) {
		memcpy(gid.raw, mapped, sizeof(mapped));
		memcpy(gid.raw + 12, (uint8_t[]){ 239, 9, 9, 9 }, 4);
	}
	return gid;
}

/* rxe lets its netdev take the group's frames, and leaves it to others to be a member: a socket,
 * as librdmacm's users have by the kernel. */
static int join(const union ibv_gid *group)
{
	int index = (int)if_nametoindex("eth0"), s = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ip_mreqn v4 = { .imr_ifindex = index };
	struct ipv6_mreq v6 = { .ipv6mr_interface = (unsigned int)index };

	if (is_v4(group)) {
		memcpy(&v4.imr_multiaddr, group->raw + 12, 4);
		close(s);
		s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (s < 0 || setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &v4, sizeof(v4)))
			die("IP_ADD_MEMBERSHIP");
	} else {
		memcpy(&v6.ipv6mr_multiaddr, group->raw, 16);
		if (s < 0 || setsockopt(s, IPPROTO_IPV6, IPV6_JOIN_GROUP, &v6, sizeof(v6)))
			die("IPV6_JOIN_GROUP");
	}
	return s;
}

static void ask_group(struct talk *t)
{
	struct peer_addr group = { .qpn = GROUP_QPN };

	talk_connect(t);
	group.gid = group_of(t);
	ask(t, &group);
	talk_end(t);
}

static void serve_group(struct talk *t)
{
	union ibv_gid group;
	int member = -1;

	talk_connect(t);
	group = group_of(t);
	talk_same("ibv_attach_mcast", (uint64_t)ibv_attach_mcast(t->ep.qp, &group, 0), 0);
	if (t->is_rxe)
		member = join(&group);
	serve(t, &group);
	talk_same("ibv_detach_mcast", (uint64_t)ibv_detach_mcast(t->ep.qp, &group, 0), 0);
	if (member >= 0)
		close(member);
	talk_end(t);
}

const struct talk_case talk_ud[] = {
	{ "ud", IBV_QPT_UD, ask_ud, serve_ud },
	{ "multicast", IBV_QPT_UD, ask_group, serve_group },
	{ 0 },
};
