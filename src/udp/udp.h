// SPDX-License-Identifier: MIT
/* The link to the network: RoCEv2 by plain UDP sockets, without privilege (DESIGN section 4, M11).
 *
 * A *port* is UDP 4791 on one address of this host, and a few sockets to send from. It comes into
 * being with the first path or listener that needs it and stays. All processes of one user share it
 * (SO_REUSEPORT): a packet may reach any of them, so deliver() must pass on what is not its own.
 * The sockets are not connected and send with DF, which makes the kernel leave the IPv4
 * identification 0, so that the ICRC is right; it is always written and always checked. A peer's
 * identification, which a socket does not see, is known of those that say they are like us
 * (udp_talk.h), and solved for and followed of the others (udp_ident.h).
 *
 * Paths lose packets: send() takes everything, and what the kernel does not want is lost. A full
 * socket buffer makes the sender wait for the device, for two milliseconds at most.
 *
 * Threads: any; one at a time drains, others skip it. A destination belongs to one QP: its send()
 * and flush() are called under that QP's turn. */
#pragma once
#include "link/link.h"
#include "udp/udp_counts.h"

struct udp;

enum { UDP_ROCE_PORT = 4791, UDP_MTU_MAX = 4096 };

struct udp_config {
	/* A packet whose ICRC is right, as a segment with SEG_NET; valid during the call only. */
	void (*deliver)(void *arg, const struct seg *s);
	void *arg;
	/* What processes with the same one send to groups reaches this one by another way. */
	uint32_t fellows;
	uint32_t slot; /* of this process: the upper bits of its numbers (host.h) */
};

struct udp_path {
	struct dest_net net;
	uint32_t ifindex; /* of link-local addresses; by which datagrams to a group leave */
	uint32_t mtu; /* payload bytes of one packet */
	uint32_t lqpn, rqpn, flow_label; /* choose the source port */
	uint8_t tclass, hop_limit;
};

int udp_create(const struct udp_config *cfg, struct udp **out);
void udp_destroy(struct udp *u); /* tests only: a program just exits. NULL is fine */

/* In a forked child: closes the descriptors that it has inherited, so that no packet waits where
 * nobody reads once the parent has ended. The parent's link is not touched. */
void udp_leave(struct udp *u);

/* Packets to @local reach this process from now on. EADDRINUSE: somebody else holds the UDP port;
 * EADDRNOTAVAIL: the kernel does not know the address; with a reason. */
int udp_listen(struct udp *u, const union ibv_gid *local, uint32_t ifindex);
/* Ports that somebody else held are tried again, without a reason; each that is had now is said in
 * the log. *@taken: how many. True: some are still held. */
bool udp_again(struct udp *u, unsigned int *taken);
/* The host's addresses have changed: ports of those that it has no more are given up, unless
 * destinations use them, since an address may come back. Never inside deliver(). */
void udp_tidy(struct udp *u);
/* Datagrams to @group that come in by interface @ifindex (0: none yet) reach this process from now
 * on, as segments with SEG_MCAST: those of other hosts and of this
 * host's other users, not those of our fellows. @owner: whose interface it is; counted. Errors as
 * above, with a reason; what could not be had is tried again by udp_rejoin(). Never inside
 * deliver(). */
int udp_join(struct udp *u, const union ibv_gid *group, const void *owner, uint32_t ifindex);
void udp_part(struct udp *u, const union ibv_gid *group, const void *owner);
/* The interface of @owner has changed, or is another one now; 0: it has none. */
void udp_rejoin(struct udp *u, const void *owner, uint32_t ifindex);
/* A destination, which listens too unless it is a group. Errors as above; EINVAL: addresses of two
 * families. */
int udp_dest(struct udp *u, const struct udp_path *p, struct dest **out);

/* Delivers up to @budget packets, or trains of them; returns how many packets. @all: also from
 * ports that nobody has a destination on and nothing has come in by; polls leave them to the
 * engine. */
unsigned int udp_drain(struct udp *u, unsigned int budget, bool all);
/* Inside deliver(): the packet is another process'. Those that follow should reach it at once. */
void udp_astray(struct udp *u);
/* For epoll: readable when packets wait. */
int udp_fd(struct udp *u);

/* Who holds UDP 4791 of @local, for a sentence: "uid 1000", "the kernel", … */
const char *udp_holder(const union ibv_gid *local, char *buf, size_t n);

void udp_count(struct udp *u, struct udp_counts *out);
