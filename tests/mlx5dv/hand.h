// SPDX-License-Identifier: MIT
/* A program that knows mlx5's formats alone: it writes WQEs and doorbell records and reads CQEs in
 * their ring, and calls nothing in between. One of these programs at a time: @a and @b are the two
 * ends of a connection, both of this process. */
#pragma once
#include <infiniband/mlx5dv.h>
#include "verbs/cases.h"

enum { BYTES = 65536, HALF = BYTES / 2, LEN = 100, INLINED = 40, BLOCK = 64, SEG = 16 };
enum { WRS = 8, ROUNDS = 100 };

/* What the program keeps of a queue pair: how far it has come. */
struct hand {
	struct peer_ep ep;
	struct ibv_comp_channel *channel;
	struct mlx5dv_qp qp;
	struct mlx5dv_cq cq;
	uint16_t sent, received; /* blocks; receives */
	uint32_t polled;
};

struct hand_op {
	uint8_t code, flags; /* MLX5_OPCODE_*, MLX5_WQE_CTRL_* */
	uint32_t imm;
};

extern struct peer_dev dev;
extern uint8_t *mem; /* BYTES */
extern struct ibv_mr *mr; /* of mem */
extern struct hand a, b;

void record(__be32 *r, uint32_t value);
/* Device, mem and mr. Doorbells are trapped if the environment does not say otherwise. */
void open_memory(void);
void endpoint(struct hand *h, enum ibv_qp_type type, struct ibv_srq *srq); /* in RESET */
void connected(enum ibv_qp_type type, struct ibv_srq *srq); /* @a to @b, which has @srq or NULL */

void *block(struct hand *h, uint16_t i);
void announce(struct hand *h, const void *ctrl); /* the doorbell too, as the hardware asks for it */
/* A message of LEN bytes of the first half: INLINED of them in the WQE, the rest by a key. @av: UD;
 * else NULL. Not announced. */
const void *write_send(struct hand *h, const struct mlx5_wqe_av *av, uint8_t flags, uint32_t imm);
void hand_send(struct hand *h, uint8_t flags, uint32_t imm);
/* @n bytes of segments behind a control segment; not announced. */
const void *write_wqe(struct hand *h, const struct hand_op *op, const void *segs, size_t n);
void write_recv(struct hand *h); /* to the second half, in two pieces */
void hand_recv(struct hand *h);

struct mlx5_cqe64 *entry(struct hand *h); /* the next one, there or not */
bool ready(struct hand *h);
bool comes(struct hand *h, unsigned int ms);
struct mlx5_cqe64 take(struct hand *h); /* it must come */
void sent_ok(struct hand *h, uint16_t at);
void hand_messages(uint32_t n); /* from @a to @b, each completed at both ends before the next */
struct mlx5_cqe64 received_ok(struct hand *h, uint32_t len, uint32_t imm);
void errs(struct hand *h); /* an error of its requester must come, and it is in ERR */
