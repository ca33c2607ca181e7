// SPDX-License-Identifier: MIT
/* The link to the network: RoCEv2 by plain UDP sockets, without privilege
 * (docs/design/udp-sockets.md).
 *
 * A *port* is UDP 4791 on one address of this host, and a few sockets to send from. The first path
 * or listener that needs a port opens it, and it stays open. All processes of one user share it
 * (SO_REUSEPORT): a packet may reach any of them, so deliver() must pass on packets for another
 * process. The sockets are not connected and send with DF, so the kernel leaves the IPv4
 * identification 0 and the ICRC is right; every packet has one, and every one is checked. A socket
 * does not show the identification of a packet that it receives: peers with softhca say which they
 * send (udp_talk.h); that of other stacks is computed from the ICRC (udp_ident.h).
 *
 * Paths lose packets: send() takes every packet, and one that the kernel refuses is lost. A full
 * socket buffer makes the sender wait for the device, for two milliseconds at most.
 *
 * Threads: any; one at a time drains, others skip it. A destination belongs to one QP: its send()
 * and flush() are called under that QP's turn. */
#pragma once
#include "link/links.h"
#include "udp/udp_counts.h"

struct udp;

enum { UDP_MTU_MAX = 4096 };

struct udp_config {
	/* A packet whose ICRC is right, as a segment with SEG_NET; valid during the call only. */
	void (*deliver)(void *arg, const struct seg *s);
	void *arg;
	/* A number that all processes have whose multicast reaches this one within the host, too:
	 * its *fellows*. Their packets to groups are not taken from the network. */
	uint32_t fellows;
	uint32_t slot; /* first slot of this process: the upper bits of its numbers */
};

struct udp_path {
	struct dest_net net;
	uint32_t ifindex; /* interface of link-local addresses; datagrams to a group leave by it */
	uint32_t mtu; /* payload bytes of one packet */
	uint32_t lqpn, rqpn, flow_label; /* the source port is computed from them */
	uint16_t sport; /* the source port that the program has chosen; 0: none */
	uint16_t wish; /* that which an address vector names, if it is to be had; 0: none */
	uint8_t tclass, hop_limit;
};

int udp_create(const struct udp_config *cfg, struct udp **out);
void udp_destroy(struct udp *u); /* tests only: a program just exits. NULL is fine */

/* In a forked child: closes the descriptors that it has inherited. Otherwise packets would go to
 * sockets that no process reads once the parent has ended. The parent's link is not touched. */
void udp_leave(struct udp *u);

/* Packets to @local reach this process from now on. EADDRINUSE: another program has the UDP port;
 * EADDRNOTAVAIL: the kernel does not know the address; with a reason. */
int udp_listen(struct udp *u, const union ibv_gid *local, uint32_t ifindex);
/* Tries again to open the ports that other programs had or that no descriptor was left for, and
 * records no reason; the log says which it has opened. True: some are still not to be had. */
bool udp_again(struct udp *u);
/* The host's addresses have changed: closes the ports of addresses that are gone, but for those
 * that destinations use, since an address may come back. Never inside deliver(). */
void udp_tidy(struct udp *u);
/* Datagrams to @group that come in by interface @ifindex (0: by none yet) reach this process from
 * now on, as segments with SEG_MCAST, one for each owner: those of other hosts and of this host's
 * other users, not those of our fellows. @owner: the device whose interface it is. The next call
 * for the same group and owner tries again after an error, and moves to another interface. Errors
 * as above; the first call gives a reason. Never inside deliver(). */
int udp_join(struct udp *u, const union ibv_gid *group, const void *owner, uint32_t ifindex);
void udp_part(struct udp *u, const union ibv_gid *group, const void *owner);
/* A destination, which listens too unless it is a group. Errors as above; EINVAL: addresses of two
 * families. */
int udp_dest(struct udp *u, const struct udp_path *p, struct dest **out);

/* Sends the question of udp_talk.h. Errors as udp_dest(). */
int udp_knock(struct udp *u, const struct udp_path *p);
/* Packets to QP 1 that came back (link/links.h): a descriptor that is readable then, for epoll, and
 * the next of them. */
int udp_returns_fd(struct udp *u);
bool udp_returned(struct udp *u, struct link_return *out);

/* Delivers up to @budget packets, or trains of them; returns how many packets. @all: also from
 * ports without destinations by which no packet has come in yet; polls leave them to the engine. */
unsigned int udp_drain(struct udp *u, unsigned int budget, bool all);
/* Delivers all packets that have come, up to a large limit. False: another thread is delivering. */
bool udp_catch_up(struct udp *u);
bool udp_delivering(struct udp *u); /* does a thread do so at this moment? */
/* Inside deliver(): the packet is for another process, which packets like it should reach without
 * this one. */
void udp_astray(struct udp *u);
/* For epoll: readable when packets wait. */
int udp_fd(struct udp *u);

/* The user whose socket has UDP 4791 of @local, or of all addresses. ENOENT: none has. */
int udp_port_user(const union ibv_gid *local, uint32_t *uid);
/* The same, for a sentence: "uid 1000", "the kernel", … */
const char *udp_holder(const union ibv_gid *local, char *buf, size_t n);

void udp_count(struct udp *u, struct udp_counts *out);
