// SPDX-License-Identifier: MIT
/* Tag matching, the driver's half: which slots of the matching list are in use and for whom, and
 * what completions of a tag-matching SRQ say. A slot returns when its last completion is polled, or
 * when it is deleted.
 * Locking: the SRQ's lock. */
#pragma once
#include "driver/dsrq_ring.h"

struct dsrq_tag {
	uint64_t wr_id; /* of the receive */
	uint16_t next; /* free list */
	bool used;
};

struct dsrq_op { /* a signalled list operation */
	uint64_t wr_id;
	uint16_t count; /* unexpected messages that the program knew of */
};

struct dsrq_tags {
	uint32_t n, max_ops;
	uint32_t ops; /* signalled operations that were not polled */
	uint32_t op_next;
	uint16_t count; /* unexpected messages that the program knows of */
	uint16_t seen; /* that were polled */
	uint16_t free; /* first of the list; n: none */
	struct dsrq_op *op; /* by op_index & op_mask */
	uint32_t op_mask;
	struct dsrq_tag tag[];
};

struct dsrq_done {
	uint64_t wr_id;
	enum ibv_wc_opcode op;
	uint32_t flags;
	enum ibv_wc_status status; /* beyond what the CQE's syndrome says */
};

int dsrq_tags_create(const struct ibv_tm_cap *cap, struct dsrq_tags **out); /* EINVAL, ENOMEM */
void dsrq_tags_free(struct dsrq_tags *t); /* NULL is fine */
int dsrq_post_ops(struct ibv_srq *ib, struct ibv_ops_wr *wr,
		  struct ibv_ops_wr **bad); /* ops entry */
/* What a CQE of a tag-matching SRQ says. False: nothing that this SRQ has asked for. */
bool dsrq_tags_done(struct dsrq *srq, const struct cqe *c, struct dsrq_done *out);
