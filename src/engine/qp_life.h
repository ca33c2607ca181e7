// SPDX-License-Identifier: MIT
/* Queue pairs from creation to destruction, as the driver asks for it. Teardown (qp_life_destroy):
 * unpublish the number and the direct-access entry, wait for peers' hazards, then eqp_life_end(),
 * free. */
#pragma once
#include "engine/node_state.h"

int qp_life_create(struct pd *pd, const struct qp_attr *attr, struct tqp **out);
/* The same for a QP that is not an ordinary one. */
struct qp_life_kind {
	size_t size; /* bytes of its struct, which begins with a struct eqp; the rest is zero */
	const struct tqp_env *env;
	const struct eqp_ops *ops; /* NULL: none */
	void (*begin)(struct eqp *e); /* NULL, or called before others can find the QP */
	bool spare; /* made inside a drain: ENOSPC when our slots have no number left */
};
int qp_life_create_as(struct pd *pd, const struct qp_attr *attr, const struct qp_life_kind *kind,
		      struct tqp **out);
/* EBUSY: attached to a multicast group, or flow rules name it. Of a QP that was inherited by fork()
 * only the private memory is freed. */
int qp_life_destroy(struct tqp *q);
/* As ibv_modify_qp(): 0 or a positive errno with a reason. RTR resolves the path. */
int qp_life_modify(struct tqp *q, const struct ibv_qp_attr *attr, int mask);
int qp_life_modify_own(struct eqp *e, const struct ibv_qp_attr *attr,
		       int mask); /* the same, whatever eqp_ops says */
/* As ibv_modify_qp_rate_limit(), which has checked nothing yet. */
int qp_life_rate(struct tqp *q, const struct ibv_qp_rate_limit_attr *attr);
/* As mlx5dv_modify_qp_udp_sport(): packets leave from UDP port @sport until the next RESET.
 * EOPNOTSUPP: not a connected QP that sends, or not in RTS; else the errno of the path. */
int qp_life_udp_sport(struct tqp *q, uint16_t sport);
/* In SQD, when no started work request is left: calls @each with the block of the send queue at
 * which work would go on, under the QP's turn. EINVAL otherwise. */
int qp_life_stopped(struct tqp *q, void (*each)(void *arg, uint16_t block), void *arg);
/* Calls @fn under the QP's turn: its rings, and what is known of them, may change places. */
void qp_life_still(struct tqp *q, void (*fn)(struct qp *qp, void *arg), void *arg);
int qp_life_query(struct tqp *q, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
