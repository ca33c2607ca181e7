// SPDX-License-Identifier: MIT
/* Calls of librdmacm that are not built yet. */
#include "verbs/unbuilt.h"

/* Of releases after v56. */
RETURNS_MINUS1(rdma_query_addrinfo)
RETURNS_MINUS1(rdma_resolve_addrinfo)
RETURNS_MINUS1(rdma_write_cm_event)
RETURNS_MINUS1(repoll_create)
RETURNS_MINUS1(repoll_ctl)
RETURNS_MINUS1(repoll_wait)
