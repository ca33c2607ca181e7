// SPDX-License-Identifier: MIT
#include "engine/groups.h"
#include <string.h>
#include "engine/delivery.h"
#include "engine/links.h"
#include "engine/path_kept.h"
#include "engine/port_wait.h"
#include "hca/limits.h"
#include "hca/mcast.h"
#include "obs/explain.h"
#include "util/clock.h"
#include "util/log.h"
#include "wire/grh.h"

/* --- members --- */

struct search {
	const struct device *device;
	bool found;
};

static void is_of_device(void *arg, uint32_t qpn)
{
	struct search *s = arg;
	const struct eqp *e = node_qp(s->device->node, qpn);

	s->found |= e && device_of(&e->q) == s->device;
}

static bool has_member(const struct device *d, const union ibv_gid *gid)
{
	struct search s = { .device = d };

	quiesce_enter();
	mcast_each(d->node->mcast, gid, is_of_device, &s);
	quiesce_exit();
	return s.found;
}

/* The networks follow the table, whoever changed it, and when. An errno: the device hears nothing
 * of @gid from some network. */
static int follow(struct device *d, const union ibv_gid *gid)
{
	struct node *n = d->node;
	struct netdev dev;
	int err = 0;

	mutex_lock(&n->groups_lock);
	gid_table_netdev(d->gids, &dev);
	if (!has_member(d, gid)) {
		links_part(n, gid, d);
	} else {
		err = dev.loopback ? 0 : links_open(n);
		err = err ? err : links_join(n, gid, d, dev.loopback ? 0 : dev.index);
	}
	mutex_unlock(&n->groups_lock);
	return err;
}

/* The first refusal of the network is said in the log; datagrams of this host go on. */
static void join(struct device *d, const union ibv_gid *gid)
{
	uint64_t before = explain_count();
	int err = follow(d, gid);
	char why[EXPLAIN_TEXT];

	if (err && explain_count() != before && !explain_last(why, sizeof(why)))
		log_warn("%s", why);
	if (port_wait_helps(err))
		port_wait_begin(d->node, clock_now());
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
		join(device_of(q), gid);
	else if (!attach && !err)
		follow(device_of(q), gid);
	return err;
}

bool groups_follow(struct device *d)
{
	union ibv_gid gid;
	bool missing = false;

	for (unsigned int i = 0; i < LIMIT_MCAST_GRP; i++)
		if (mcast_group(d->node->mcast, i, &gid))
			missing |= port_wait_helps(follow(d, &gid));
	return missing;
}

/* --- sending, receiving --- */

void groups_meet(struct node *n)
{
	host_cast_meet(n->host);
}

int groups_send(struct tqp *q, const struct seg *s)
{
	struct eqp *e = to_eqp(q);
	struct seg with = *s;
	struct netdev dev;
	struct dest *d;
	int err;

	gid_table_netdev(device_of(q)->gids, &dev);
	with.ifindex = dev.index;
	err = host_cast_send(e->node->host, &with, &q->req.way, &q->waiter);
	if (err || path_kept_cast(e, s->av, &d))
		return err;
	dest_send(d, s, NULL);
	d->ops->put(d);
	return 0;
}

struct fan_out {
	struct node *node;
	const struct seg *seg;
	const void *owner; /* only QPs of this device get it; NULL: of all */
	uint32_t ifindex; /* only QPs of devices on this interface get it; 0: on any */
};

static bool hears(const struct device *d, const struct fan_out *f)
{
	struct netdev dev;

	if (f->owner)
		return d == f->owner;
	gid_table_netdev(d->gids, &dev);
	return dev.index == f->ifindex;
}

static void to_member(void *arg, uint32_t qpn)
{
	const struct fan_out *f = arg;
	const struct eqp *e = f->owner || f->ifindex ? node_qp(f->node, qpn) : NULL;

	if (e && !hears(device_of(&e->q), f))
		return;
	delivery_to_qp(f->node, qpn, f->seg);
}

void groups_deliver(struct node *n, const struct seg *s)
{
	struct fan_out f = { .node = n, .seg = s };
	union ibv_gid gid;
	struct grh g;

	if (!(s->flags & SEG_NET)) {
		f.ifindex = s->ifindex;
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
