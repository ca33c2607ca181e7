// SPDX-License-Identifier: MIT
/* A program's handle on a target QP, from ibv_create_qp_ex() or ibv_open_qp(). Each handle gets the
 * QP's events. */
#pragma once
#include "hca/xrcd.h"

struct xrc_handle {
	struct context *ctx;
	struct xrcd *xrcd;
	struct ibv_qp *user;
	struct xrc_handle *next;
};
