// SPDX-License-Identifier: MIT
#include "cm/cm_neigh.h"
#include <errno.h>
#include "cm/cm_talk.h"
#include "cm/cm_watch.h"
#include "net/neigh.h"
#include "net/rtnl.h"
#include "util/clock.h"

#define AGAIN_NS UINT64_C(1000000000)

static void (*finished)(struct cm_id *id, int status);

static void end(struct cm_id *id, int status)
{
	list_del(&id->query);
	cm_timer(&id->timer, UINT64_MAX);
	finished(id, status);
}

static bool is_known(const struct cm_id *id, const struct rtnl_route *route)
{
	const struct route_ends ends = { id->way.dgid, id->way.sgid, id->way.ifindex };

	return neigh_known(&ends, route);
}

static void neighs_ready(struct cm_watch *w)
{
	struct list *pos, *tmp;

	rtnl_watch_drain(w->fd);
	list_for_each_safe(pos, tmp, &cm.queries)
	{
		struct cm_id *id = container_of(pos, struct cm_id, query);

		if (is_known(id, NULL))
			end(id, 0);
	}
	if (list_empty(&cm.queries))
		cm_unwatch(w);
}

/* The kernel gives up after three seconds: it is asked anew as long as there is time. */
static void knock(struct cm_id *id, uint64_t now)
{
	struct gsi_mad mad;

	cm_talk_address(id, &mad);
	gsi_knock(cm.node, &mad, true);
	cm_timer(&id->timer, now + AGAIN_NS < id->query_until ? now + AGAIN_NS : id->query_until);
}

static void on_timer(struct timer *t, uint64_t now)
{
	struct cm_id *id = container_of(t, struct cm_id, timer);

	if (is_known(id, NULL))
		end(id, 0);
	else if (now >= id->query_until)
		end(id, -ETIMEDOUT);
	else
		knock(id, now);
}

static bool watch(void)
{
	if (cm.neighs.serial)
		return true;
	if (rtnl_watch_neighs(&cm.neighs.fd))
		return false;
	if (!cm_watch(&cm.neighs, neighs_ready))
		return true;
	cm_unwatch(&cm.neighs);
	return false;
}

void cm_neigh_await(struct cm_id *id, int ms, const struct rtnl_route *route,
		    void (*done)(struct cm_id *id, int status))
{
	uint64_t now = clock_now();

	finished = done;
	id->phase = PHASE_ADDR_QUERY;
	id->timer.fire = on_timer;
	id->query_until = now + (uint64_t)(ms > 0 ? ms : 0) * 1000000;
	/* The watch first: what becomes known behind the question wakes it. */
	if (!watch() || is_known(id, route)) {
		end(id, 0);
		return;
	}
	list_add_tail(&cm.queries, &id->query);
	knock(id, now);
}
