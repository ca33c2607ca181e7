// SPDX-License-Identifier: MIT
/* Calls of librdmacm that are not built yet. */
#include "verbs/unbuilt.h"

UNBUILT_CALL(int, rdma_getaddrinfo, return minus1_errno(softhca_unbuilt("rdma_getaddrinfo", ENODEV));)

RETURNS_NOTHING(rdma_freeaddrinfo)

/* Sockets over RDMA. */
RETURNS_MINUS1(raccept)
RETURNS_MINUS1(rbind)
RETURNS_MINUS1(rclose)
RETURNS_MINUS1(rconnect)
RETURNS_MINUS1(rfcntl)
RETURNS_MINUS1(rgetpeername)
RETURNS_MINUS1(rgetsockname)
RETURNS_MINUS1(rgetsockopt)
RETURNS_MINUS1_LONG(riomap)
RETURNS_MINUS1(riounmap)
RETURNS_MINUS1_LONG(riowrite)
RETURNS_MINUS1(rlisten)
RETURNS_MINUS1(rpoll)
RETURNS_MINUS1_LONG(rread)
RETURNS_MINUS1_LONG(rreadv)
RETURNS_MINUS1_LONG(rrecv)
RETURNS_MINUS1_LONG(rrecvfrom)
RETURNS_MINUS1_LONG(rrecvmsg)
RETURNS_MINUS1(rselect)
RETURNS_MINUS1_LONG(rsend)
RETURNS_MINUS1_LONG(rsendmsg)
RETURNS_MINUS1_LONG(rsendto)
RETURNS_MINUS1(rsetsockopt)
RETURNS_MINUS1(rshutdown)
RETURNS_MINUS1(rsocket)
RETURNS_MINUS1_LONG(rwrite)
RETURNS_MINUS1_LONG(rwritev)

/* Of releases after v56. */
RETURNS_MINUS1(rdma_query_addrinfo)
RETURNS_MINUS1(rdma_resolve_addrinfo)
RETURNS_MINUS1(rdma_write_cm_event)
RETURNS_MINUS1(repoll_create)
RETURNS_MINUS1(repoll_ctl)
RETURNS_MINUS1(repoll_wait)
