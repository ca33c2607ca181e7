// SPDX-License-Identifier: MIT
/* A UD queue pair of datagrams, on the device of one of this host's addresses. Its messages begin
 * with the sender's address and port; the address must be the packet's. Under the socket's lock. */
#pragma once
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

struct dgram_qp;

struct dgram_from { /* of whom a message is */
	union ibv_gid gid; /* IPv4 as ::ffff:a.b.c.d */
	uint16_t port; /* network order */
	uint32_t qpn;
};

typedef void (*dgram_got)(void *arg, const struct dgram_qp *qp, const struct dgram_from *from,
			  const void *data, size_t len);

static inline bool is_v4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

/* Of address @local, its port not looked at; @sq and @rq messages. ENODEV: no device has it. */
int dgram_qp_open(const struct sockaddr *local, uint32_t sq, uint32_t rq, struct dgram_qp **out);
void dgram_qp_free(struct dgram_qp *qp);
const union ibv_gid *dgram_qp_gid(const struct dgram_qp *qp);
uint32_t dgram_qp_number(const struct dgram_qp *qp);
int dgram_qp_fd(const struct dgram_qp *qp); /* readable when dgram_qp_arm() has come true */
struct ibv_ah *dgram_qp_way(const struct dgram_qp *qp, const union ibv_gid *to);
/* Whether it has room, and messages of @len bytes go. */
bool dgram_qp_takes(const struct dgram_qp *qp, size_t len);
/* Of port @port, network order. Only what it takes. */
int dgram_qp_send(struct dgram_qp *qp, struct ibv_ah *ah, uint32_t qpn, uint16_t port,
		  const struct msghdr *m);
/* What has been sent makes room; of messages at most @max are received. */
void dgram_qp_poll(struct dgram_qp *qp, unsigned int max, dgram_got got, void *arg);
void dgram_qp_arm(struct dgram_qp *qp);
void dgram_qp_drain(struct dgram_qp *qp);
