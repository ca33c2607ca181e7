// SPDX-License-Identifier: MIT
/* MMO work requests (mlx5dv_wr_memcpy(3)): this device copies from memory to memory, both under
 * keys of the queue pair's protection domain. Nothing is sent. */
#pragma once
#include "transport/fate.h"
#include "transport/gather.h"
#include "transport/tqp.h"

/* Does @w, whose opcode is MLX5_OPCODE_MMO, say what to copy? */
bool mmo_is_copy(const struct wqe *w);
/* False: a key or the memory refuses; @g says which, with why KEY_OK for memory that is gone. */
bool mmo_copy(const struct tqp *q, const struct wqe *w, struct gather *g);
