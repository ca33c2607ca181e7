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
	if (i->id.event) {
		rdma_ack_cm_event(i->id.event);
		i->id.event = NULL;
	}
	if (rdma_get_cm_event(i->id.channel, &i->id.event))
		return -1;
	return minus1_errno(status_errno(i->id.event));
}

int id_result(struct id *i, bool sync, int err)
{
	if (err)
		return minus1_errno(err);
	return sync ? id_complete(i) : 0;
}

/* Before the call, since its event may end the id. */
static void aim(struct rdma_cm_id *id, const struct sockaddr *dst)
{
	if (dst->sa_family == AF_INET)
		memcpy(&id->route.addr.dst_storage, dst, sizeof(struct sockaddr_in));
	else if (dst->sa_family == AF_INET6)
		memcpy(&id->route.addr.dst_storage, dst, sizeof(struct sockaddr_in6));
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
			     int timeout_ms)
{
	struct sockaddr_storage was;
	struct id *i = to_id(id);
	bool sync;
	int err;

	if (!dst)
		return minus1_errno(EINVAL);
	was = id->route.addr.dst_storage;
	sync = i->sync;
	aim(id, dst);
	err = softhca_cm()->resolve_addr(i->cm, src, dst, timeout_ms);
	if (err)
		id->route.addr.dst_storage = was;
	return id_result(i, sync, err);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	struct id *i = to_id(id);
	bool sync = i->sync;

	return id_result(i, sync, softhca_cm()->resolve_route(i->cm, timeout_ms));
}
