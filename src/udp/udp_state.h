// SPDX-License-Identifier: MIT
/* The inside of the udp link, for its files. Locks: udp->lock guards the opening of ports and their
 * sockets, udp->group_lock that of groups, udp->drain_lock the receive buffers and udp->ident; the
 * last is only tried. Two leaves: udp->batch_lock guards the free batches, udp->peer_lock the table
 * of peers and the raising of questions. */
#pragma once
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include "udp/udp.h"
#include "udp/udp_ident.h"
#include "udp/udp_peer.h"
#include "udp/udp_seen.h"
#include "udp/udp_steer.h"
#include "util/mutex.h"
#include "util/spin.h"
#include "wire/grh.h"
#include "wire/opcode.h"

enum {
	UDP_PORTS = 64,
	UDP_SENDERS = 8, /* sockets to send from, per port: as many source ports */
	UDP_CASTER = UDP_SENDERS, /* index of one more, which sends to groups */
	UDP_TELLER, /* one more, to QP 1, which learns what did not arrive (udp_returns.c) */
	UDP_CHOSEN, /* index of the first of those with ports that programs have chosen */
	UDP_WISHED = UDP_CHOSEN + 8, /* of those with ports that address vectors name */
	UDP_SOCKETS = UDP_WISHED + 8,
	UDP_GROUPS = 256,
	UDP_BATCH = 32, /* packets that are sent by one system call */
	UDP_INBOX = 16, /* messages that are received by one system call */
	UDP_PACKET_MAX = WIRE_HEADERS_MAX + UDP_MTU_MAX + 3 + ICRC_LEN,
};

union udp_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct udp_port {
	union ibv_gid gid;
	uint32_t ifindex; /* 0 unless link-local */
	bool ipv4;
	int fd; /* bound to UDP 4791; -1: not yet */
	bool foreign; /* to be tried again: another program had it when it was wanted, or no
		       * descriptor was left; under udp->lock */
	struct udp_seen *seen; /* NULL: no packet has asked, or no CAP_NET_RAW; under drain_lock */
	bool looked; /* one has asked; under drain_lock */
	int hello; /* socket that questions to peers leave by */
	int sender[UDP_SOCKETS]; /* -1: not open yet; under udp->lock */
	int train[UDP_SOCKETS]; /* IPv4: those that send trains, or -1; under udp->lock */
	uint16_t sport[UDP_SOCKETS];
	uint16_t hello_sport;
	uint64_t asking_until; /* atomic, ns: until then polls look for answers to questions */
	uint32_t dests; /* atomic: destinations that use it */
	uint32_t heard; /* atomic: a packet was delivered once, so polls read the socket, too */
	struct udp_steer steer;
};

/* A multicast group that this process listens to on one interface. */
struct udp_group {
	struct udp_port port; /* gid: the group's; fd -1: not open, until udp_join() tries again */
	const void *owner; /* the device that has joined */
};

struct udp_inbox {
	struct mmsghdr msg[UDP_INBOX];
	struct iovec iov[UDP_INBOX];
	union udp_addr from[UDP_INBOX];
	uint64_t control[UDP_INBOX][16]; /* struct cmsghdr */
	uint8_t bytes[UDP_INBOX]
		     [1 << 16]; /* a packet, or several that the kernel has put together */
};

struct udp {
	struct udp_config cfg;
	struct mutex lock;
	struct udp_port *port[UDP_PORTS];
	uint32_t n_ports;
	struct mutex group_lock;
	struct udp_group *group[UDP_GROUPS]; /* changes: under drain_lock too */
	uint32_t n_groups;
	int epoll;
	int returns; /* epoll: sockets that send to QP 1 */
	struct spin drain_lock;
	struct udp_inbox *inbox;
	uint32_t next; /* where a drain begins: a port, or behind them a group; under drain_lock */
	struct udp_ident ident;
	bool astray; /* udp_astray() was called for this packet; under drain_lock */
	struct spin batch_lock;
	struct udp_batch *batches;
	struct spin peer_lock;
	struct udp_peer *peers[UDP_PEER_BUCKETS];
	uint32_t n_peers;
	struct udp_counts *counts; /* atomics; in a memfd, or &unshown */
	struct udp_counts unshown;
	int counts_fd; /* the memfd; -1: none */
};

/* Ports that a process has for itself: the lower half of 0xc000 to 0xffff. In the upper one is that
 * which all processes of a user send to groups from. */
#define UDP_OWN_PORTS  0x1fff
#define UDP_USERS_PORT 0xe000

/* udp_socket.c: 0 or a positive errno. */
int udp_socket_listen(const struct udp_port *p, int *fd);
/* Bound to the address and a port of 0xc000-0xffff, @want if it is free. @shared: other sockets may
 * send from it too. */
int udp_socket_sender(const struct udp_port *p, uint16_t want, bool shared, int *fd, uint16_t *got);
int udp_socket_chosen(const struct udp_port *p, uint16_t port, int *fd); /* bound to that one */
void udp_addr_gid(const union udp_addr *a, uint8_t gid[16]);
socklen_t udp_addr_set(union udp_addr *a, const union ibv_gid *gid, uint32_t ifindex,
		       uint16_t port);

int udp_option(int fd, int level, int option, int value);
void udp_socket_receive_buffer(int fd); /* makes it as large as the system allows */
void udp_socket_deafen(int fd); /* it sends, and keeps nothing that is sent to it */

/* The steps of udp_socket_listen() and udp_socket_sender(), for udp_mcast.c. */
int udp_socket_open(const struct udp_port *p, int *fd);
int udp_socket_bind(const struct udp_port *p, int fd, uint16_t port);
int udp_socket_receives(const struct udp_port *p, int fd); /* with TOS, TTL and destination */

/* udp_mcast.c: opens the socket of @p that sends to groups. */
int udp_mcast_sender(struct udp *u, struct udp_port *p);
void udp_mcast_leave(struct udp *u); /* as udp_leave() */
void udp_mcast_free(struct udp *u);
/* udp_returns.c: opens the socket of @p that sends to QP 1. Under u->lock. */
int udp_returns_sender(struct udp *u, struct udp_port *p);
/* udp_holder.c: returns @err, with a reason that names the holder of the port */
int udp_refuse_port(int err, const union ibv_gid *gid);
/* A socket for trains with the port of sender[@i]. */
int udp_socket_train(struct udp *u, struct udp_port *p, unsigned int i, const int **fd);

/* udp_send.c: the caller has counted it in port->dests */
int udp_dest_make(struct udp *u, struct udp_port *port, unsigned int sender,
		  const struct udp_path *p, struct dest **out);

static inline void udp_bump(uint64_t *count, uint64_t n)
{
	fetch_add_relaxed(count, n);
}
