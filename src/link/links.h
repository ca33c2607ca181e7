// SPDX-License-Identifier: MIT
/* A link as the engine has it: it makes destinations, is drained, can be slept on, and wants to be
 * tended at times. The engine has a list of them, and knows no other thing of a network.
 *
 * Threads: every function may be called by any thread; the link does its own locking. No function
 * but astray() is called inside deliver(), the callback by which the link's segments come in. */
#pragma once
#include "link/link.h"

/* A path through a network. */
struct link_path {
	struct dest_net net;
	uint32_t ifindex; /* of link-local addresses; by which datagrams to a group leave */
	uint32_t mtu; /* payload bytes of one packet */
	uint32_t lqpn, rqpn, flow_label; /* they choose the source port */
	uint16_t sport; /* source port that the program wants; 0: any */
	uint8_t tclass, hop_limit;
};

struct link;

/* A packet to QP 1 that did not arrive, as the network tells the sender. */
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
	/* Tries again to have the ports that other programs had. *@taken: how many it has got.
	 * True: some are still theirs. */
	bool (*again)(struct link *l, unsigned int *taken);
	void (*tidy)(struct link *l); /* the host's addresses have changed */
	/* Datagrams to @group that come in by interface @ifindex (0: by none yet) reach this
	 * process until part(). @owner: the device that asks; its calls are counted. */
	int (*join)(struct link *l, const union ibv_gid *group, const void *owner,
		    uint32_t ifindex);
	void (*part)(struct link *l, const union ibv_gid *group, const void *owner);
	/* The interface of @owner has changed, or is another one now; 0: it has none. */
	void (*rejoin)(struct link *l, const void *owner, uint32_t ifindex);
	/* Inside deliver(): the packet is another process's; others like it should reach it at
	 * once. */
	void (*astray)(struct link *l);
	/* Asks the host what it is, as the first packets to it do, and so the kernel for its link
	 * address. */
	int (*knock)(struct link *l, const struct link_path *to);
	/* Delivers all that has come. False: another thread is delivering. */
	bool (*catch_up)(struct link *l);
	/* Readable when a packet to QP 1 has come back: returned() has it. -1: none ever does. The
	 * link's descriptor; for epoll. */
	int (*returns_fd)(struct link *l);
	bool (*returned)(struct link *l, struct link_return *out); /* false: no more */
	void (*leave)(struct link *l); /* in a forked child: closes what it has inherited */
};

/* One allocation, for free(), as long as it has not been opened. */
struct link {
	const char *name; /* "host", "udp" */
	/* Before any other function, under a lock of the caller's, until it has succeeded once.
	 * NULL: a link that is always open. */
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
