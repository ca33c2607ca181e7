// SPDX-License-Identifier: MIT
/* Multicast groups of this process: group GID → attached UD QPs.
 * Locking: a spin guards changes; a group's members are a snapshot that attach and detach replace,
 * so mcast_each() takes no lock. It is called inside a quiesce section, attach and detach outside
 * any. */
#pragma once
#include "hca/qp.h"

struct mcast_table;
int mcast_table_create(struct mcast_table **out);
void mcast_table_destroy(struct mcast_table *t);
/* EINVAL: not a UD QP or not a multicast GID; ENOMEM: limits. Attaching twice is fine and counts
 * once: *joined, false before the call, becomes true at the first attach only. */
int mcast_attach(struct mcast_table *t, struct qp *qp, const union ibv_gid *gid, bool *joined);
int mcast_detach(struct mcast_table *t, struct qp *qp,
		 const union ibv_gid *gid); /* EINVAL: was not */
bool mcast_group(struct mcast_table *t, unsigned int i,
		 union ibv_gid *out); /* @i < LIMIT_MCAST_GRP */
bool mcast_attached(struct mcast_table *t, const struct qp *qp); /* to any group */
/* Inside a quiesce section. */
void mcast_each(struct mcast_table *t, const union ibv_gid *gid,
		void (*fn)(void *arg, uint32_t qpn), void *arg);
