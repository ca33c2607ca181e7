// SPDX-License-Identifier: MIT
/* This process's halves of target QPs: each runs the responder, and has the work that is under way
 * here. One is made when it is first needed, and kept until its domain is closed here. */
#pragma once
#include "xrc/xrc_turn.h"

/* That of entry @index, made if need be; NULL: no memory. */
struct xrc_target *xrc_half_get(struct xrc_domain *d, uint32_t index);
/* That of number @qpn of domain @d. NULL: the domain has no such QP. Inside a quiesce section, or
 * under xrc_member_lock(). */
struct eqp *xrc_half_find_in(struct xrc_domain *d, uint32_t qpn);
/* The half that a request is for: of its SRQ's domain if that has the QP, which may refuse it
 * otherwise. NULL: no domain of this process has the QP. Inside a quiesce section. */
struct eqp *xrc_half_find(struct node *n, const struct seg *s);
void xrc_half_free(struct xrc_target *x); /* the domain is being closed; NULL is fine */
