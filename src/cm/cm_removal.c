// SPDX-License-Identifier: MIT
#include "cm/cm_removal.h"
#include <net/if.h>
#include "cm/cm_event.h"
#include "cm/cm_watch.h"
#include "net/gid_table.h"
#include "net/rtnl.h"

static bool is_removed(const struct hca *hca)
{
	char name[IF_NAMESIZE];
	struct netdev dev;

	gid_table_netdev(container_of(hca, struct device, hca)->gids, &dev);
	return !dev.index || !if_indextoname(dev.index, name);
}

static void remove_id(struct cm_id *id)
{
	if (id->phase == PHASE_ADDR_QUERY) {
		list_del(&id->query);
		cm_timer(&id->timer, UINT64_MAX);
	}
	id->phase = PHASE_REMOVED;
	cm_event_raise(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
}

static void links_ready(struct cm_watch *w)
{
	struct list *pos;

	rtnl_watch_drain(w->fd);
	for (unsigned int i = 0; i < cm.n_hcas; i++) {
		if (!is_removed(cm.hca[i]))
			continue;
		list_for_each(pos, &cm.ids)
		{
			struct cm_id *id = container_of(pos, struct cm_id, node);

			/* a request that is not accepted has no events */
			if (id->way.hca == cm.hca[i] && id->phase != PHASE_REMOVED && !id->gone &&
			    !id->muted && id->channel)
				remove_id(id);
		}
	}
}

void cm_removal_begin(void)
{
	/* where netlink is refused, nobody hears of it */
	if (!cm.links.serial && !rtnl_watch_open(&cm.links.fd) && cm_watch(&cm.links, links_ready))
		cm_unwatch(&cm.links);
}
