// SPDX-License-Identifier: MIT
/* Numbers of queue pairs, in blocks of a slot each (link/number.h), and the table that finds a QP
 * by its number (node_qp()). Locking: node->lock guards the blocks' bitmaps and their making;
 * lookups run inside a quiesce section. One more slot is taken under node->grow_lock alone. */
#pragma once
#include "engine/node_state.h"

int qp_table_begin(struct node *n); /* with the host's first slot; ENOMEM */
void qp_table_end(struct node *n); /* no other thread has seen it */
/* A number, for a QP of any kind. Outside sections and turns. */
int qp_table_take(struct node *n, uint32_t *qpn);
int qp_table_spare(struct node *n, uint32_t *qpn); /* by any thread; no more slots: ENOSPC */
void qp_table_give(struct node *n, uint32_t qpn);
void qp_table_set(struct node *n, uint32_t qpn, struct eqp *e); /* NULL: not to be found any more */
/* The QPs that can be found, one a call, each once; *@at is 0 at first. NULL: no more. Inside a
 * quiesce section. */
struct eqp *qp_table_next(struct node *n, uint32_t *at);
