// SPDX-License-Identifier: MIT
/* Questions to the kernel by rtnetlink and sock_diag. Each opens and closes its own socket, so
 * fork, threads and programs that close descriptors of others need no care; the watch is the one
 * socket that stays open. Errors are positive errnos: the kernel's answer, or why no socket could
 * be had. */
#pragma once
#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stdint.h>

/* Does @err say that netlink itself is refused, and not this question? */
bool rtnl_refused(int err);
/* Is @err of this process or of this moment? It tells nothing of what the kernel has. */
bool rtnl_is_passing(int err);

/* A message may be shorter than it should be: a netlink socket takes messages from other senders
 * than the kernel, too. @n: bytes of the message's fixed part. */
static inline bool rtnl_has(const struct nlmsghdr *msg, size_t n)
{
	return mnl_nlmsg_get_payload_len(msg) >= n;
}

static inline uint32_t rtnl_u32(const struct nlattr *attr) /* 0: it is shorter */
{
	return mnl_attr_get_payload_len(attr) < sizeof(uint32_t) ? 0 : mnl_attr_get_u32(attr);
}

struct rtnl_route {
	unsigned char type; /* RTN_LOCAL, RTN_UNICAST, … */
	uint32_t oif;
	unsigned char via_family; /* of the gateway; 0: none, the destination itself is asked for */
	uint8_t via[16];
};

/* Dumps RTM_GETLINK, RTM_GETADDR or RTM_GETROUTE (@request) of @family; @fn sees each message. */
int rtnl_dump(uint16_t request, unsigned char family, mnl_cb_t fn, void *arg);
/* Where a packet to @to (4 or 16 bytes) would go. @from: the source address, which rules may ask
 * for (`ip rule add from`); NULL: none yet. @oif: only by that interface, 0: by any. */
int rtnl_route(unsigned char family, const void *to, const void *from, uint32_t oif,
	       struct rtnl_route *out);

/* The neighbour's state (NUD_REACHABLE, …) on interface @oif. ENOENT: there is none. */
int rtnl_neigh(unsigned char family, const void *addr, uint32_t oif, uint16_t *state);

/* The same by sock_diag, whose question is the @n bytes of @ask: @fn sees each socket. */
int rtnl_diag(const void *ask, size_t n, mnl_cb_t fn, void *arg);

/* A non-blocking socket that becomes readable when a link or an address changes. */
int rtnl_watch_open(int *fd);
int rtnl_watch_neighs(int *fd); /* the same for neighbours */
/* Reads all messages that wait; true: there were some, or the socket overflowed. */
bool rtnl_watch_drain(int fd);
