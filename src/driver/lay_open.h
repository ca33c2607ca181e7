// SPDX-License-Identifier: MIT
/* mlx5dv_init_obj(3): tells a program where rings and doorbell records lie, and how large they are.
 * The first call moves both into pages of their own (those from the program's own functions stay),
 * where they remain. From then on the engine looks at the records of a QP, SRQ or WQ without a call
 * (engine/unrung.h), and a CQ's entries are the program's: none is taken out when a QP ends. Stores
 * to the doorbell page ring (doorbell_page.h), and are not kept: what they say is in the records by
 * then. Each fills *out and clears the bits of its comp_mask that are not served. EIO: made before
 * fork(). Any thread, but not while the object is being destroyed. */
#pragma once
#include <infiniband/mlx5dv.h>

struct ah;
struct dcq;
struct dm;
struct dqp;
struct dsrq;
struct dwq;

/* EINVAL: an RSS QP or a handle on an XRC target, which have no rings. */
int lay_open_qp(struct dqp *qp, struct mlx5dv_qp *out);
int lay_open_cq(struct dcq *cq, struct mlx5dv_cq *out);
int lay_open_srq(struct dsrq *srq, struct mlx5dv_srq *out);
int lay_open_wq(struct dwq *wq, struct mlx5dv_rwq *out);
int lay_open_dm(struct dm *dm, struct mlx5dv_dm *out);
int lay_open_ah(struct ah *ah, struct mlx5dv_ah *out);
