// SPDX-License-Identifier: MIT
/* Numbers of XRC SRQs, which tell the process as QPNs do (link/number.h), and the table that finds
 * one by its number. Lookups run inside a quiesce section and take no lock. */
#pragma once
#include "engine/node_state.h"

/* A number without an SRQ yet. ENOMEM: no number or no memory is left. */
int xrc_srq_table_take(struct node *n, uint32_t *srqn);
void xrc_srq_table_give(uint32_t srqn); /* its SRQ is not found any more */
void xrc_srq_table_set(struct node *n, uint32_t srqn, struct srq *srq); /* NULL: not to be found */
struct srq *xrc_srq_table_find(struct node *n, uint32_t srqn); /* NULL: none of this process */
