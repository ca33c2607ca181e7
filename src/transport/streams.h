// SPDX-License-Identifier: MIT
/* DCI streams (mlx5dv_create_qp(3)): a work request that fails ends its stream, not the queue pair.
 * Work requests of such a stream complete with WR_FLUSH_ERR, in their place; the others are sent,
 * again if need be, over another connection. tqp_env.spare and .stopped know the streams. */
#pragma once
#include "transport/fate.h"
#include "transport/sent.h"

/* The entry before head has failed with @v. True: its stream alone. */
bool streams_spare(struct tqp *q, enum verdict v, uint64_t now);
/* @e is of a stream in error: it is to be flushed when its place in the queue comes. */
void streams_stop(struct sent *e);
