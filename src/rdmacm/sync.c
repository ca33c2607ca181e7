// SPDX-License-Identifier: MIT
/* Calls that an event ends: a synchronous id waits for it. */
#include <string.h>
#include "rdmacm/id.h"

static int status_errno(const struct rdma_cm_event *e)
{
	if (!e->status)
		return 0;
	if (e->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	return e->status < 0 ? -e->status : e->status;
}

int id_complete(struct id *i)
{
	if (!i->sync)
		return 0;
	if (i->id.event) {
		rdma_ack_cm_event(i->id.event);
		i->id.event = NULL;
	}
	if (rdma_get_cm_event(i->id.channel, &i->id.event))
		return -1;
	return minus1_errno(status_errno(i->id.event));
}

int id_result(struct id *i, int err)
{
	return err ? minus1_errno(err) : id_complete(i);
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
			     int timeout_ms)
{
	struct id *i = to_id(id);
	int err = dst ? softhca_cm()->resolve_addr(i->cm, src, dst, timeout_ms) : EINVAL;

	if (!err)
		memcpy(&id->route.addr.dst_storage, dst,
		       dst->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						 : sizeof(struct sockaddr_in6));
	return id_result(i, err);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	struct id *i = to_id(id);

	return id_result(i, softhca_cm()->resolve_route(i->cm, timeout_ms));
}
