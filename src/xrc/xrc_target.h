// SPDX-License-Identifier: MIT
/* Target QPs of XRC domains (IBV_QPT_XRC_RECV), as the driver asks for them. Programs have handles;
 * the QP lives until the last handle of a living member is closed, or, when the last process with
 * one died without closing it, as long as the domain has members. */
#pragma once
#include "xrc/xrc_domain.h"
#include "xrc/xrc_handle.h"

/* Makes one. @h: the driver's memory, for as long as the handle is open. ETIMEDOUT: a member that
 * found the QP that had its place before is stopped. */
int xrc_target_create(struct xrcd *x, struct xrc_handle *h, struct tqp **out);
int xrc_target_open(struct xrcd *x, uint32_t qpn, struct xrc_handle *h, struct tqp **out);
/* Closes @h. The last handle of all living members destroys the QP. ETIMEDOUT: a member that is
 * stopped has its turn; @h stays open. */
int xrc_target_close(struct tqp *q, struct xrc_handle *h);
/* The SRQ @srq of this process ends: no target QP works for it any more. */
void xrc_target_forget_srq(struct xrc_domain *d, const struct srq *srq);
