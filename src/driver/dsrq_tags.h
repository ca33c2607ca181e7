// SPDX-License-Identifier: MIT
/* Tag matching, the driver's half: the slots of the matching list with the wr_ids of their
 * receives, and reading the completions of a tag-matching SRQ. A slot is free again when its last
 * completion is polled, or when its tag is deleted.
 * Locking: the SRQ's lock. */
#pragma once
#include "driver/dsrq_ring.h"

struct dsrq_tag {
	uint64_t wr_id; /* of the receive */
	uint16_t next; /* next slot of the free list */
	bool used;
};

struct dsrq_op { /* a signalled list operation */
	uint64_t wr_id;
	uint16_t count; /* unexpected messages that the program knew of when it posted */
};

struct dsrq_tags {
	uint32_t n, max_ops; /* slots; signalled operations at once */
	uint32_t ops; /* signalled operations whose completion was not polled */
	uint32_t op_next; /* number of the next signalled operation */
	uint16_t count; /* unexpected messages that the program knows of */
	uint16_t seen; /* unexpected messages whose completion was polled */
	uint16_t free; /* first slot of the free list; n: none */
	struct dsrq_op *op; /* by op_index & op_mask */
	uint32_t op_mask;
	struct dsrq_tag tag[];
};

struct dsrq_done {
	uint64_t wr_id;
	enum ibv_wc_opcode op;
	uint32_t flags;
	enum ibv_wc_status status; /* of CQEs without a syndrome */
};

int dsrq_tags_create(const struct ibv_tm_cap *cap, struct dsrq_tags **out); /* EINVAL, ENOMEM */
void dsrq_tags_free(struct dsrq_tags *t); /* NULL is fine */
int dsrq_post_ops(struct ibv_srq *ib, struct ibv_ops_wr *wr,
		  struct ibv_ops_wr **bad); /* ops entry */
/* Reads a CQE of a tag-matching SRQ. False: the SRQ has asked for no such thing. */
bool dsrq_tags_done(struct dsrq *srq, const struct cqe *c, struct dsrq_done *out);
