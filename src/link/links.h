// SPDX-License-Identifier: MIT
/* A link as the engine sees it: it makes destinations, is drained, has a descriptor to sleep on,
 * and a deadline by which it wants to be tended. The engine has a list of links, and reaches
 * networks only by them.
 *
 * Threads: every function may be called by any thread; the link does its own locking. No function
 * but astray() is called inside deliver(), the callback by which the link's segments come in. */
#pragma once
#include "link/link.h"

/* A path through a network. */
struct link_path {
	struct dest_net net;
	uint32_t ifindex; /* interface of link-local addresses, and of datagrams to a group */
	uint32_t mtu; /* payload bytes of one packet */
	uint32_t lqpn, rqpn, flow_label; /* the source port is computed from them */
	uint16_t sport; /* the source port that the program has chosen; 0: none */
	uint16_t wish; /* that which an address vector names, if it is to be had; 0: none */
	uint8_t tclass, hop_limit;
};

struct link;

/* A packet to QP 1 that did not arrive and came back, as ICMP quotes it. */
struct link_return {
	struct dest_net net;
	uint32_t ifindex;
	int error; /* ECONNREFUSED: that host has no process there; EHOSTUNREACH, … */
	size_t len;
	uint8_t packet[512]; /* from the BTH on, as much as came back */
};

/* Operations on the addresses of a network. Errors as those of dest(), with a reason. */
struct link_net_ops {
	/* Packets to @local reach this process from now on. EADDRINUSE: another program has the
	 * port; EADDRNOTAVAIL: the kernel does not know the address. */
	int (*listen)(struct link *l, const union ibv_gid *local, uint32_t ifindex);
	/* Tries again to open the ports that could not be had. True: some still cannot. */
	bool (*again)(struct link *l);
	void (*tidy)(struct link *l); /* the host's addresses have changed */
	/* Datagrams to @group that come in by interface @ifindex (0: by none yet) reach this
	 * process until part(). @owner: the device that asks. The next call for the same group and
	 * owner tries again after an error, and moves to another interface. */
	int (*join)(struct link *l, const union ibv_gid *group, const void *owner,
		    uint32_t ifindex);
	void (*part)(struct link *l, const union ibv_gid *group, const void *owner);
	/* Inside deliver(): the packet is for another process, which should get such packets
	 * directly. */
	void (*astray)(struct link *l);
	/* Sends our hello to the host, as the first packets to it do, which also makes the kernel
	 * look for its link address. */
	int (*knock)(struct link *l, const struct link_path *to);
	/* Delivers all packets that have come. False: another thread is delivering. */
	bool (*catch_up)(struct link *l);
	bool (*delivering)(struct link *l); /* does a thread do so at this moment? */
	/* Readable when a packet to QP 1 has come back: returned() has it. -1: none ever does. The
	 * link's descriptor; for epoll. */
	int (*returns_fd)(struct link *l);
	bool (*returned)(struct link *l, struct link_return *out); /* false: no more */
	void (*leave)(struct link *l); /* in a forked child: closes what it has inherited */
};

/* Until it is opened it is one allocation, for free(). */
struct link {
	const char *name; /* "host", "udp" */
	/* Called before any other function, under a lock of the caller's, until it has succeeded
	 * once. NULL: the link is always open. */
	int (*open)(struct link *l);
	/* One reference. EPROTONOSUPPORT: @to is not a path of this link. NULL: this host's, whose
	 * destinations are found by number. */
	int (*dest)(struct link *l, const struct link_path *to, struct dest **out);
	/* Delivers up to @budget segments; returns how many. @all: also from sources that polls
	 * leave to the engine thread. NULL: this host's, which every poll drains by itself. */
	unsigned int (*drain)(struct link *l, unsigned int budget, bool all);
	int (*fd)(struct link *l); /* readable: drain() or tend() has work; for epoll */
	/* ns: when tend() is to be called next; UINT64_MAX: never. NULL: always that. */
	uint64_t (*deadline)(struct link *l);
	void (*tend)(struct link *l, uint64_t now); /* NULL: nothing to do */
	const struct link_net_ops *net; /* NULL: this host's, which has no addresses */
};
