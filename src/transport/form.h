// SPDX-License-Identifier: MIT
/* What a WQE of each opcode sends: the opcodes of its packets, or nothing. */
#pragma once
#include "transport/fate.h"
#include "transport/tqp.h"

struct form {
	uint32_t verb; /* 1 << IBV_WR_*: the work request that has this opcode; 0: none */
	bool reads; /* answered by data */
	uint8_t first, middle, last, only; /* OP_* */
	bool local; /* sends nothing */
};

extern const struct form forms[256]; /* by MLX5_OPCODE_* */

/* V_OK, or what is wrong with @w: an opcode that the service lacks, a READ or an atomic with
 * max_rd_atomic 0, sizes. */
enum verdict form_allowed(const struct tqp *q, const struct wqe *w);

/* The atomic write sends a payload and gets none, unlike all other opcodes with .reads. */
static inline bool form_brings_data(const struct wqe *w)
{
	return w->opcode == WQE_OPCODE_ATOMIC_WRITE;
}
