// SPDX-License-Identifier: MIT
/* XRC SRQs: numbers that are unique on the host, since they tell the process, as QPNs do, and the
 * table that finds one by number. Lookups run inside a quiesce section and take no lock. */
#pragma once
#include "engine/node_state.h"

/* @attr: with xrcd and cq; the number is given here. */
int xrc_srq_create(struct pd *pd, struct srq_attr *attr, struct srq **out);
int xrc_srq_destroy(struct srq *srq);
struct srq *xrc_srq_find(struct node *n, uint32_t srqn); /* NULL: none of this process */
