// SPDX-License-Identifier: MIT
/* Groups: joined, left. */
#include <stdlib.h>
#include <string.h>
#include "rdmacm/id.h"
#include "util/uncancelled.h"

static void take_off(struct id *i, const struct group *g)
{
	struct group **at = &i->groups;

	pthread_mutex_lock(&i->lock);
	while (*at && *at != g)
		at = &(*at)->next;
	if (*at)
		*at = g->next;
	pthread_mutex_unlock(&i->lock);
}

static int join(struct id *i, const struct sockaddr *addr, bool send_only, void *context)
{
	struct group *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return ENOMEM;
	memcpy(&g->addr, addr,
	       addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
	g->context = context;
	g->send_only = send_only;
	pthread_mutex_lock(&i->lock);
	g->next = i->groups;
	i->groups = g;
	pthread_mutex_unlock(&i->lock);
	err = softhca_cm()->join(i->cm, addr, send_only, 0, g);
	if (err) {
		take_off(i, g);
		free(g);
	}
	return err;
}

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	struct id *i = to_id(id);
	bool sync;

	if (!addr)
		return minus1_errno(EINVAL);
	sync = i->sync;
	return id_result(i, sync, join(i, addr, false, context));
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
				  void *context)
{
	const uint32_t all = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	struct id *i = to_id(id);
	bool send_only, sync;
	int err = given(attr, "rdma_join_multicast_ex", "mc_join_attr");

	if (err)
		return minus1_errno(err);
	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return minus1_errno(ENOTSUP);
	if ((attr->comp_mask & all) != all || !attr->addr ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return minus1_errno(EINVAL);
	send_only = attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	sync = i->sync;
	return id_result(i, sync, join(i, attr->addr, send_only, context));
}

static void detach(struct id *i, struct group *g)
{
	if (g->attached && i->id.qp)
		ibv_detach_mcast(i->id.qp, &g->gid, g->lid);
	free(g);
}

/* The thread that has fetched the event of @g uses it, and the program its context, until the event
 * is acknowledged: Linux waits, too. A synchronous id has fetched it by itself. */
static void wait_for_ack(struct id *i, struct group *g)
{
	int was;

	if (i->id.event && ((struct event *)i->id.event)->group == g) {
		rdma_ack_cm_event(i->id.event);
		i->id.event = NULL;
	}
	was = uncancelled_begin(); /* as rdma_destroy_id() waits */
	pthread_mutex_lock(&i->lock);
	while (!g->acked)
		pthread_cond_wait(&i->all_acked, &i->lock);
	pthread_mutex_unlock(&i->lock);
	uncancelled_end(was);
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct id *i = to_id(id);
	bool fetched;
	void *left;
	int err = addr ? softhca_cm()->leave(i->cm, addr, &left, &fetched) : EINVAL;

	if (err)
		return minus1_errno(err);
	if (fetched)
		wait_for_ack(i, left);
	take_off(i, left);
	detach(i, left);
	return 0;
}

void groups_leave(struct id *i)
{
	struct group *g;

	while ((g = i->groups)) {
		i->groups = g->next;
		detach(i, g);
	}
}
