// SPDX-License-Identifier: MIT
#include "engine/groups.h"
#include <string.h>
#include "engine/delivery.h"
#include "engine/links.h"
#include "engine/path_kept.h"
#include "hca/mcast.h"
#include "obs/explain.h"
#include "util/log.h"
#include "wire/grh.h"

/* --- members --- */

/* A refusal of the network is said in the log; datagrams of this host go on. */
static void join(struct eqp *e, const union ibv_gid *gid)
{
	struct device *d = device_of(&e->q);
	char why[EXPLAIN_TEXT];
	struct netdev dev;

	gid_table_netdev(d->gids, &dev);
	if (dev.loopback || links_open(e->node))
		return;
	if (links_join(e->node, gid, d, dev.index) && !explain_last(why, sizeof(why)))
		log_warn("%s", why);
}

int groups_attach(struct tqp *q, const union ibv_gid *gid, bool attach)
{
	struct mcast_table *t = q->qp.ctx->hca->mcast;
	struct eqp *e = to_eqp(q);
	struct host *h = e->node->host;
	bool joined = false;
	int err;

	if (attach) {
		host_cast_want(h, HOST_GROUPS, 1);
		err = mcast_attach(t, &q->qp, gid, &joined);
	} else {
		err = mcast_detach(t, &q->qp, gid);
	}
	if (attach ? !joined : !err)
		host_cast_want(h, HOST_GROUPS, -1);
	if (joined)
		join(e, gid);
	else if (!attach && !err)
		links_part(e->node, gid, device_of(q));
	return err;
}

void groups_follow(struct device *d)
{
	struct netdev dev;

	gid_table_netdev(d->gids, &dev);
	links_rejoin(d->node, d, dev.loopback ? 0 : dev.index);
}

/* --- sending, receiving --- */

void groups_meet(struct node *n)
{
	host_cast_meet(n->host);
}

int groups_send(struct tqp *q, const struct seg *s)
{
	struct eqp *e = to_eqp(q);
	int err = host_cast_send(e->node->host, s, &q->req.way, &q->waiter);
	struct dest *d;

	if (err || path_kept_cast(e, s->av, &d))
		return err;
	dest_send(d, s, NULL);
	d->ops->put(d);
	return 0;
}

struct fan_out {
	struct node *node;
	const struct seg *seg;
	const void *owner; /* only QPs of this device get it; NULL: all do */
};

static void to_member(void *arg, uint32_t qpn)
{
	const struct fan_out *f = arg;
	const struct eqp *e = f->owner ? node_qp(f->node, qpn) : NULL;

	if (e && device_of(&e->q) != f->owner)
		return;
	delivery_to_qp(f->node, qpn, f->seg);
}

void groups_deliver(struct node *n, const struct seg *s)
{
	struct fan_out f = { .node = n, .seg = s };
	union ibv_gid gid;
	struct grh g;

	if (!(s->flags & SEG_NET)) {
		if (s->av)
			mcast_each(n->mcast, &s->av->dgid, to_member, &f);
		return;
	}
	if (grh_parse(s->grh, &g))
		return;
	memcpy(gid.raw, g.dgid, sizeof(gid));
	f.owner = load_acquire(&n->n_devices) > 1 ? s->owner
						  : NULL; /* pairs with node_device_make() */
	mcast_each(n->mcast, &gid, to_member, &f);
}
