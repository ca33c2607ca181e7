// SPDX-License-Identifier: MIT
/* Calls and values that headers newer than rdma-core 44 declare. Where the installed header has
 * them too, the compiler compares. */
#pragma once
#include <rdma/rdma_cma.h>
#include <stdint.h>

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

/* enum rdma_cm_event_type; EVENT_USER has its number, a uint64_t, in front of the event's param */
enum { EVENT_ADDRINFO_RESOLVED = 16, EVENT_ADDRINFO_ERROR = 17, EVENT_USER = 18 };
/* RAI_SA: the subnet's administrator is asked; RAI_DNS: the resolver, as without any */
enum { ADDRINFO_SA = 0x10, ADDRINFO_DNS = 0x20 };

#ifdef HAVE_CM_EVENT_USER
_Static_assert((int)RDMA_CM_EVENT_ADDRINFO_RESOLVED == (int)EVENT_ADDRINFO_RESOLVED &&
		       (int)RDMA_CM_EVENT_ADDRINFO_ERROR == (int)EVENT_ADDRINFO_ERROR &&
		       (int)RDMA_CM_EVENT_USER == (int)EVENT_USER && RAI_SA == (int)ADDRINFO_SA &&
		       RAI_DNS == (int)ADDRINFO_DNS,
	       "values of the installed header");
_Static_assert(offsetof(struct rdma_cm_event, param.arg) == offsetof(struct rdma_cm_event, param),
	       "where an event has its number");
#endif
