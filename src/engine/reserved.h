// SPDX-License-Identifier: MIT
/* Numbers of queue pairs that a program reserves (mlx5dv_reserved_qpn_alloc(3)): no queue pair of
 * this host gets them, and packets to them find no QP. A number belongs to the context that
 * reserved it, or to the one that it was imported from, until it is given back or the context is
 * closed. A forked child has none of those of its parent.
 * Locking: node->lock guards node->reserved; any thread, outside of quiesce sections. */
#pragma once
#include "hca/device.h"

/* ENOMEM: max_qp queue pairs and reserved numbers are in use, or the host has no number left. EIO:
 * the context is closed. */
int reserved_take(struct context *ctx, uint32_t *qpn);
int reserved_give(struct context *ctx, uint32_t qpn); /* EINVAL: not reserved by @ctx */
void reserved_close(struct context *ctx); /* gives back all; before context_destroy() */
