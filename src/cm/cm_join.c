// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cm/cm_addr.h"
#include "cm/cm_call.h"
#include "cm/cm_event.h"
#include "engine/groups.h"
#include "obs/explain.h"

enum { CAST_QPN = 0xffffff, HOPS = 64 };

/* A group of an id. The QP is attached in librdmacm; the kernel's membership comes with that. */
struct cm_join {
	struct list node; /* in id->joins */
	union ibv_gid gid;
	void *context;
	bool fetched; /* its event */
};

static void announce(struct cm_id *id, struct cm_join *j, struct cm_event *e)
{
	e->fetched = &j->fetched;
	e->news.join = j->context;
	e->news.param.qpn = CAST_QPN;
	e->news.param.qkey = id->qkey ? id->qkey : RDMA_UDP_QKEY;
	e->news.param.ah = (struct ibv_ah_attr){ .is_global = 1,
						 .port_num = 1,
						 .grh = { .dgid = j->gid,
							  .sgid_index = id->way.sgid_index,
							  .hop_limit = HOPS,
							  .traffic_class = id->tos } };
	cm_event_queue(e);
}

static int join_locked(struct cm_id *id, const struct sockaddr *group, uint32_t qkey, void *context)
{
	struct cm_join *j;
	struct cm_event *e;

	if ((id->phase != PHASE_BOUND && id->phase != PHASE_ADDR) || !id->way.hca ||
	    id->qp_type != IBV_QPT_UD)
		return refuse(EINVAL, "rdma_join_multicast: needs an id of UD that is bound to a "
				      "device and has no route yet; call rdma_bind_addr or "
				      "rdma_resolve_addr before");
	if (!cm_addr_known(group) || cm_addr_any(group) || !cm_addr_group(group))
		return refuse(EINVAL, "rdma_join_multicast: no group's address; give one");
	j = calloc(1, sizeof(*j));
	e = cm_event_new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	if (!j || !e) {
		free(j);
		free(e);
		return refuse_memory("rdma_join_multicast", sizeof(*j));
	}
	cm_addr_gid(group, &j->gid);
	j->context = context;
	if (qkey)
		id->qkey = qkey;
	list_add_tail(&id->joins, &j->node);
	announce(id, j, e);
	return 0;
}

int cm_call_join(struct cm_id *id, const struct sockaddr *group, bool send_only, uint32_t qkey,
		 void *context)
{
	int err = cm_enter(id, "rdma_join_multicast");

	(void)send_only; /* nothing is attached then, and so nothing joined */
	if (err)
		return err;
	err = join_locked(id, group, qkey, context);
	cm_leave();
	if (!err)
		groups_meet(cm.node);
	return err;
}

static struct cm_join *joined(struct cm_id *id, const struct sockaddr *group)
{
	union ibv_gid gid;
	struct list *pos;

	cm_addr_gid(group, &gid);
	list_for_each(pos, &id->joins)
	{
		struct cm_join *j = container_of(pos, struct cm_join, node);

		if (!memcmp(&j->gid, &gid, sizeof(gid)))
			return j;
	}
	return NULL;
}

static void leave_join(struct cm_id *id, struct cm_join *j)
{
	struct list gone, *pos, *tmp;

	list_init(&gone);
	cm_event_purge(id, j->context, &gone);
	list_for_each_safe(pos, tmp, &gone) free(container_of(pos, struct cm_event, node));
	list_del(&j->node);
	free(j);
}

int cm_call_leave(struct cm_id *id, const struct sockaddr *group, void **context, bool *fetched)
{
	struct cm_join *j;
	int err = cm_enter(id, "rdma_leave_multicast");

	if (err)
		return err;
	j = joined(id, group);
	if (j) {
		*context = j->context;
		*fetched = j->fetched;
		leave_join(id, j);
	}
	cm_leave();
	return j ? 0
		 : refuse(EADDRNOTAVAIL,
			  "rdma_leave_multicast: the id has not joined that group; leave each "
			  "group once");
}

void cm_joins_free(struct cm_id *id)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &id->joins) free(container_of(pos, struct cm_join, node));
	list_init(&id->joins);
}
