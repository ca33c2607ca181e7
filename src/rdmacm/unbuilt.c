// SPDX-License-Identifier: MIT
/* All of librdmacm but its strings: there is no connection manager yet. */
#include "verbs/unbuilt.h"

/* The first calls of a program answer "no such device", which it takes for a machine without a
 * connection manager. */
#define NO_CM(name) minus1_errno(softhca_unbuilt(#name, ENODEV))
UNBUILT_CALL(void *, rdma_create_event_channel,
	     return null_errno(softhca_unbuilt("rdma_create_event_channel", ENODEV));)
UNBUILT_CALL(int, rdma_create_id, return NO_CM(rdma_create_id);)
UNBUILT_CALL(int, rdma_create_ep, return NO_CM(rdma_create_ep);)
UNBUILT_CALL(int, rdma_getaddrinfo, return NO_CM(rdma_getaddrinfo);)

EXPORT void *rdma_get_devices(int *num_devices);
EXPORT void *rdma_get_devices(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	return null_errno(softhca_unbuilt("rdma_get_devices", ENODEV));
}

/* Connections. */
RETURNS_MINUS1(rdma_accept)
RETURNS_MINUS1(rdma_ack_cm_event)
RETURNS_MINUS1(rdma_bind_addr)
RETURNS_MINUS1(rdma_connect)
RETURNS_MINUS1(rdma_create_qp)
RETURNS_MINUS1(rdma_create_qp_ex)
RETURNS_MINUS1(rdma_create_srq)
RETURNS_MINUS1(rdma_create_srq_ex)
RETURNS_NOTHING(rdma_destroy_ep)
RETURNS_NOTHING(rdma_destroy_event_channel)
RETURNS_MINUS1(rdma_destroy_id)
RETURNS_NOTHING(rdma_destroy_qp)
RETURNS_NOTHING(rdma_destroy_srq)
RETURNS_MINUS1(rdma_disconnect)
RETURNS_MINUS1(rdma_establish)
RETURNS_NOTHING(rdma_free_devices)
RETURNS_NOTHING(rdma_freeaddrinfo)
RETURNS_MINUS1(rdma_get_cm_event)
RETURNS_ZERO(rdma_get_dst_port)
RETURNS_MINUS1(rdma_get_remote_ece)
RETURNS_MINUS1(rdma_get_request)
RETURNS_ZERO(rdma_get_src_port)
RETURNS_MINUS1(rdma_init_qp_attr)
RETURNS_MINUS1(rdma_join_multicast)
RETURNS_MINUS1(rdma_join_multicast_ex)
RETURNS_MINUS1(rdma_leave_multicast)
RETURNS_MINUS1(rdma_listen)
RETURNS_MINUS1(rdma_migrate_id)
RETURNS_MINUS1(rdma_notify)
RETURNS_MINUS1(rdma_reject)
RETURNS_MINUS1(rdma_reject_ece)
RETURNS_MINUS1(rdma_resolve_addr)
RETURNS_MINUS1(rdma_resolve_route)
RETURNS_MINUS1(rdma_set_local_ece)
RETURNS_MINUS1(rdma_set_option)

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
