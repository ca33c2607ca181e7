// SPDX-License-Identifier: MIT
/* Queue pairs from creation to destruction: numbers, the table that finds a QP by number, state
 * changes with their path, and the teardown order. Teardown (qp_life_destroy): unpublish the
 * number and the direct-access entry, wait for hazards, take the turn for good, move to RESET,
 * drop timers, waiters and notes, quiesce, free. */
#pragma once
#include "engine/node_state.h"

/* A number of this process, for a QP of any kind. */
int qp_number_take(struct node *n, uint32_t *qpn);
void qp_number_give(struct node *n, uint32_t qpn);
/* What every QP of the engine has; @resume is its waiter's. */
void qp_life_init(struct eqp *e, struct node *n, const struct tqp_env *env);
/* The destination that a modify call asks for, or NULL: it asks for none. Before the turn is taken:
 * it may ask the kernel. */
int qp_life_new_dest(struct eqp *e, const struct ibv_qp_attr *attr, int mask, bool alternate,
		     struct dest **out);
/* The waiter, the acknowledgement and the timer let go of it, and nobody works on it again. Its
 * number leads nowhere by now. */
void qp_life_retire(struct eqp *e);
void qp_life_swap_dest(struct eqp *e, struct dest *d); /* under the turn; takes the reference */
int qp_life_create(struct pd *pd, const struct qp_attr *attr, struct tqp **out);
/* EBUSY: attached to a multicast group. EIO-free: an inherited QP (fork) frees only its private
 * memory. */
int qp_life_destroy(struct tqp *q);
/* As ibv_modify_qp(): 0 or a positive errno with a reason. RTR resolves the path. */
int qp_life_modify(struct tqp *q, const struct ibv_qp_attr *attr, int mask);
/* As ibv_modify_qp_rate_limit(), which has checked nothing yet. */
int qp_life_rate(struct tqp *q, const struct ibv_qp_rate_limit_attr *attr);
int qp_life_query(struct tqp *q, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
/* The first segment since the last modify is here, under the turn. What was published until now may
 * name no process: the QP was connected before the contact to the peer was. */
void qp_life_met(struct eqp *e);
