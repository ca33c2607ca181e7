// SPDX-License-Identifier: MIT
/* How the opcode of a WQE goes out: the packets' opcodes, or that it sends nothing. */
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

/* V_OK, or what is wrong with @w: an opcode that the service lacks, a READ or an atomic where
 * max_rd_atomic says none, sizes. */
enum verdict form_allowed(const struct tqp *q, const struct wqe *w);

/* Of the opcodes that are answered by data only the atomic write sends a payload; it gets none. */
static inline bool form_brings_data(const struct wqe *w)
{
	return w->opcode == WQE_OPCODE_ATOMIC_WRITE;
}
