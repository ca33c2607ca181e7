// SPDX-License-Identifier: MIT
/* Target QPs of XRC domains (IBV_QPT_XRC_RECV). Each member process has its own half of one: a
 * place to run the responder with what is under way here, made when it is first needed. Handles are
 * what programs hold; the QP lives until the last of a living member is closed, or, when its last
 * holder died without closing, as long as the domain has members. */
#pragma once
#include "engine/xrc_domain.h"

struct xrc_target;

/* What a program holds of a target QP; events go to each. */
struct xrc_handle {
	struct context *ctx;
	struct xrcd *xrcd;
	struct ibv_qp *user;
	struct xrc_handle *next;
};

/* Makes one. @h: the driver's memory, for as long as the handle is open. */
int xrc_target_create(struct xrcd *x, struct xrc_handle *h, struct tqp **out);
int xrc_target_open(struct xrcd *x, uint32_t qpn, struct xrc_handle *h, struct tqp **out);
/* Closes @h. The last handle of all living members destroys the QP. */
int xrc_target_close(struct tqp *q, struct xrc_handle *h);
int xrc_target_modify(struct eqp *e, const struct ibv_qp_attr *attr, int mask);
int xrc_target_query(struct eqp *e, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

/* The half of this process that a request is for; NULL: no domain here has the QP. Inside a
 * quiesce section. */
struct eqp *xrc_target_find(struct node *n, const struct seg *s);
void xrc_target_input(struct eqp *e, const struct seg *s, uint64_t now); /* under the turn */
/* Nothing of this process works for @srq any more. */
void xrc_target_forget_srq(struct xrc_domain *d, const struct srq *srq);
void xrc_target_free(struct xrc_target *x); /* the domain is being closed; NULL is fine */
