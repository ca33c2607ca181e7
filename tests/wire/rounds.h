// SPDX-License-Identifier: MIT
/* Rounds of random work between two connected RC QPs, each side an initiator and a target at once:
 * SEND, WRITE, both with immediate too, READ, COMPARE AND SWAP and FETCH AND ADD, of 0 B to the
 * largest size at odd offsets. Both sides derive the same plan from the seed, and both check every
 * byte, those around a message too. A mismatch ends the program. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct terms { /* the client's, for both sides */
	uint64_t seed;
	uint32_t largest; /* bytes of a message */
	uint32_t mtu; /* bytes */
	uint32_t timeout; /* of the QP: its code */
	uint32_t rounds; /* UINT32_MAX: until a side stops */
};

struct counts { /* atomics */
	uint64_t rounds, operations, bytes, gone;
};

struct conn;
/* @fd: a TCP connection to the other side, the connection's from now on; @side: 0 or 1. */
struct conn *conn_make(struct ibv_pd *pd, int fd, int side, const struct terms *t, int gid_index);
/* Until the rounds are done or *@stop on one side. False: the peer has gone. */
bool conn_run(struct conn *c, const bool *stop, struct counts *sum);
void conn_free(struct conn *c);
/* False: the peer has gone. */
bool tcp_put(int fd, const void *p, size_t n);
bool tcp_get(int fd, void *p, size_t n);
