// SPDX-License-Identifier: MIT
/* A path that the program gives instead of rdma_resolve_route() (RDMA_OPTION_IB_PATH). Under
 * cm.lock. */
#pragma once
#include "cm/cm_state.h"

/* Into id->way: MTU, hop limit, traffic class, flow label, sl, rate, packet life time. @val: an
 * array of struct ibv_path_data, of which the first for both directions counts. EINVAL, with a
 * reason: there is none, the id's address is not resolved, or the path is not one between the
 * addresses and by the port of the id. */
int cm_path_take(struct cm_id *id, const void *val, size_t len);
