// SPDX-License-Identifier: MIT
/* The specification's diagram of QP states (10.3; ibv_modify_qp(3)). The table is the code; an
 * empty cell is illegal. The service's row says which attributes a move takes (hca/service.c). */
#pragma once
#include "hca/service.h"

/* 0, or EINVAL with a reason: the move is illegal, or the named attribute is missing or one too
 * many. */
int qp_moves_check(uint32_t qpn, const struct service *s, enum ibv_qp_state from,
		   enum ibv_qp_state to, int mask);
