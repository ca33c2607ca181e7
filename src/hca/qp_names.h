// SPDX-License-Identifier: MIT
/* What sentences call the states and types of queue pairs. */
#pragma once
#include <infiniband/verbs.h>

const char *qp_state_name(enum ibv_qp_state s); /* "RTS" */
const char *qp_type_name(enum ibv_qp_type t); /* "RC" */
