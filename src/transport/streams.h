// SPDX-License-Identifier: MIT
/* DCI streams (mlx5dv_create_qp(3)): a work request that fails ends its stream, not the queue pair.
 * Work requests of such a stream complete with WR_FLUSH_ERR, in queue order; the others are sent
 * over another connection, some of them again. tqp_env.spare and .stopped know the streams. */
#pragma once
#include "transport/fate.h"
#include "transport/sent.h"

/* The entry before head has failed with @v. True: that ends its stream alone. */
bool streams_spare(struct tqp *q, enum verdict v, uint64_t now);
/* @e is of a stream in error: it will be flushed when it is the oldest. */
void streams_stop(struct sent *e);
