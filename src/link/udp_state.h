// SPDX-License-Identifier: MIT
/* The inside of the udp link, for its files. Locks: udp->lock (ports and their sockets come into
 * being), udp->drain_lock (tried; the receive buffers and udp->ident), udp->batch_lock (a leaf: the
 * free batches). */
#pragma once
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include "link/udp.h"
#include "link/udp_ident.h"
#include "util/spin.h"
#include "wire/grh.h"
#include "wire/opcode.h"

enum {
	UDP_PORTS = 64,
	UDP_SENDERS = 8, /* sockets to send from, per port: as many source ports */
	UDP_BATCH = 32, /* packets of one system call */
	UDP_PACKET_MAX = WIRE_HEADERS_MAX + UDP_MTU_MAX + 3 + ICRC_LEN,
	UDP_HEADER_LEN = 8,
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
	int fd; /* bound to UDP 4791 */
	int sender[UDP_SENDERS]; /* -1: not open yet; under udp->lock */
	uint16_t sport[UDP_SENDERS];
	uint32_t dests; /* atomic */
	uint32_t heard; /* a packet came in: polls look at it */
};

struct udp_batch {
	struct udp_batch *next; /* free */
	unsigned int n;
	struct mmsghdr msg[UDP_BATCH];
	struct iovec iov[UDP_BATCH];
	uint8_t packet[UDP_BATCH][UDP_PACKET_MAX];
};

struct udp_inbox {
	struct mmsghdr msg[UDP_BATCH];
	struct iovec iov[UDP_BATCH];
	union udp_addr from[UDP_BATCH];
	uint64_t control[UDP_BATCH][16]; /* struct cmsghdr */
	uint8_t packet[UDP_BATCH][UDP_PACKET_MAX];
};

struct udp {
	struct udp_config cfg;
	pthread_mutex_t lock;
	struct udp_port *port[UDP_PORTS];
	uint32_t n_ports;
	int epoll;
	struct spin drain_lock;
	struct udp_inbox *inbox;
	struct udp_ident ident;
	struct spin batch_lock;
	struct udp_batch *batches;
	struct udp_counts counts; /* atomics */
};

/* udp_socket.c: 0 or a positive errno. */
int udp_socket_listen(const struct udp_port *p, int *fd);
/* Bound to the address and a port of 0xc000-0xffff, @want if it is free. */
int udp_socket_sender(const struct udp_port *p, uint16_t want, int *fd, uint16_t *got);
socklen_t udp_addr_set(union udp_addr *a, const union ibv_gid *gid, uint32_t ifindex,
		       uint16_t port);

/* udp_send.c */
int udp_dest_make(struct udp *u, struct udp_port *port, unsigned int sender,
		  const struct udp_path *p, struct dest **out);

static inline void udp_bump(uint64_t *count, uint64_t n)
{
	fetch_add_relaxed(count, n);
}
