// SPDX-License-Identifier: MIT
/* Sockets over RDMA: two ends of one process, and a peer that speaks the protocol by itself, and
 * may lie. What is not as it should be ends the case. */
#pragma once
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdint.h>

enum { LIMIT = 60000 /* ms */ };

struct sockaddr_in any_port(void);
int listener(struct sockaddr_in *at);
void wait_for(int fd, short events);
void connected(int *near, int *far);
extern int iomaps; /* entries of the I/O map that sockets offer; 0: none */

struct liar {
	struct rdma_cm_id *listen, *id;
	struct ibv_mr *mr;
	uint8_t mem[4096]; /* its ring: 1024 bytes from 1024 on */
	uint64_t sges, data;
	uint32_t sges_key, data_key;
};

/* A socket whose peer is the liar, of that version; @receives: 0, credits never come. */
int meet_liar(struct liar *l, uint8_t version, int receives);
/* A WRITE of @len bytes from mem + 2048, with immediate. */
void lie(struct liar *l, uint32_t imm, uint64_t addr, uint32_t key, uint32_t len);
void end_liar(struct liar *l);

/* Threads by their ids, which are atomic; 0: it is still to begin. */
void until_asleep(const pid_t *thread);
int stat_of(const pid_t *thread); /* a descriptor, for until_asleep_or(); -1: it has ended */
void until_asleep_or(int stat, const int *done); /* or @done, which is atomic; NULL: only asleep */
