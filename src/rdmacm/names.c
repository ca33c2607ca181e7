// SPDX-License-Identifier: MIT
/* Event names, as rdma_get_cm_event(3) spells them. */
#include "rdmacm/newer.h"
#include "verbs/export.h"

#define NAME(event) [event] = #event
static const char *const events[] = {
	NAME(RDMA_CM_EVENT_ADDR_RESOLVED),
	NAME(RDMA_CM_EVENT_ADDR_ERROR),
	NAME(RDMA_CM_EVENT_ROUTE_RESOLVED),
	NAME(RDMA_CM_EVENT_ROUTE_ERROR),
	NAME(RDMA_CM_EVENT_CONNECT_REQUEST),
	NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
	NAME(RDMA_CM_EVENT_CONNECT_ERROR),
	NAME(RDMA_CM_EVENT_UNREACHABLE),
	NAME(RDMA_CM_EVENT_REJECTED),
	NAME(RDMA_CM_EVENT_ESTABLISHED),
	NAME(RDMA_CM_EVENT_DISCONNECTED),
	NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
	NAME(RDMA_CM_EVENT_MULTICAST_JOIN),
	NAME(RDMA_CM_EVENT_MULTICAST_ERROR),
	NAME(RDMA_CM_EVENT_ADDR_CHANGE),
	NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
	/* of headers after rdma-core 44 */
	[EVENT_ADDRINFO_RESOLVED] = "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
	[EVENT_ADDRINFO_ERROR] = "RDMA_CM_EVENT_ADDRINFO_ERROR",
	[EVENT_USER] = "RDMA_CM_EVENT_USER",
};

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
	size_t n = sizeof(events) / sizeof(events[0]);

	return (size_t)event < n && events[event] ? events[event] : "UNKNOWN EVENT";
}
