// SPDX-License-Identifier: MIT
/* The specification's table of QP state transitions (IB specification 1.x section 10.3;
 * ibv_modify_qp(3)) with required and optional attributes per QP type. The table is the code; an
 * empty cell is illegal. */
#pragma once
#include <infiniband/verbs.h>

/* @mask without the attributes of the half, requester or responder, that an XRC QP does not
 * have. */
int qp_moves_used(enum ibv_qp_type type, int mask);
/* 0, or EINVAL with a reason: the move is illegal, an attribute is missing (named), or one is too
 * many (named). */
int qp_moves_check(uint32_t qpn, enum ibv_qp_state from, enum ibv_qp_state to,
		   enum ibv_qp_type type, int mask);
