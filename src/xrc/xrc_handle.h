// SPDX-License-Identifier: MIT
/* What a program has of a target QP: one from ibv_create_qp_ex() or ibv_open_qp(). Events of the QP
 * go to each. */
#pragma once
#include "hca/xrcd.h"

struct xrc_handle {
	struct context *ctx;
	struct xrcd *xrcd;
	struct ibv_qp *user;
	struct xrc_handle *next;
};
