// SPDX-License-Identifier: MIT
#include "engine/path.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "engine/links.h"
#include "engine/tracing.h"
#include "hca/ah.h"
#include "link/fault_live.h"
#include "obs/explain.h"
#include "util/log.h"
#include "wire/grh.h"
#include "wire/opcode.h"
#include "util/uncancelled.h"

#define SCOPE_INTERFACE 1 /* of a group's address */

/* The program would run without the faults that its user wants to see. */
static int refuse_faults(const char *text)
{
	char why[192];

	if (!fault_wrong(text, why, sizeof(why)))
		return 0;
	log_error_once("SOFTHCA_FAULT: %s; no queue pair gets a path", why);
	return refuse(EINVAL, "SOFTHCA_FAULT: %s", why);
}

/* ENOENT: none are set; @text is NULL. */
static int read_faults(const char **text, struct fault_config *out)
{
	*text = secure_getenv("SOFTHCA_FAULT");
	if (!*text)
		return ENOENT;
	fault_live_start();
	return fault_parse(*text, out);
}

bool path_faults(struct fault_config *out)
{
	const char *text;

	return !read_faults(&text, out);
}

/* SOFTHCA_FAULT wraps every path. */
static int with_faults(struct dest *d, struct dest **out)
{
	const char *text;
	struct fault_config cfg;
	int err = read_faults(&text, &cfg);

	*out = d;
	if (!text)
		return 0;
	if (err)
		err = refuse_faults(text);
	else
		err = fault_wrap(d, &cfg, out);
	if (err)
		d->ops->put(d);
	return err;
}

/* The trace sees segments as the program sends them, before faults: it looks like one taken at the
 * sender. */
static int wrapped(struct eqp *e, const struct av *to, struct dest *d, struct dest **out)
{
	struct dest *with;
	int err = with_faults(d, &with);

	return err ? err : tracing_wrap(e, to, with, out);
}

int path_to_number(struct eqp *e, const struct av *to, uint32_t qpn, struct dest **out)
{
	struct dest *d;
	int err = host_dest(e->node->host, qpn, &d);

	return err ? err : wrapped(e, to, d, out);
}

/* The number of an SRQ tells its process, as a QPN does. A network has one way to all processes of
 * a host, but the order between two of them is kept in the same manner: by waiting until nothing is
 * outstanding. */
bool path_route(struct tqp *q, const struct wqe *w, bool idle, uint64_t now)
{
	struct eqp *e = to_eqp(q);
	uint32_t slot = number_slot(w->srqn) + 1;
	struct dest *d;

	(void)now;
	if (likely(e->route == slot))
		return true;
	if (!idle)
		return false;
	if (q->dest && q->dest->net) {
		sender_forget(q); /* each process answers from a port of its own */
		e->route = slot;
		return true;
	}
	if (path_to_number(e, NULL, w->srqn, &d))
		return true; /* the old way stays: segments that no process takes are lost */
	e->route = slot;
	path_swap(e, d);
	return true;
}

bool path_again(struct tqp *q)
{
	struct eqp *e = to_eqp(q);
	const struct dest *dead = dest_innermost(q->dest);
	struct dest *d;
	struct av av;

	if (!dead->same_host || host_dest_again(e->node->host, dead, &d))
		return false;
	av_from_attr(&q->qp.attr.ah_attr, &av);
	if (wrapped(e, &av, d, &d))
		return false;
	path_swap(e, d);
	e->met = false;
	return true;
}

/* --- the network --- */

/* @way: ROUTE_NONE: the kernel knows none; ROUTE_UNKNOWN: it could not be asked. */
static int check_route(struct eqp *e, const struct path_ask *ask, const union ibv_gid *from,
		       enum route_kind way)
{
	char text[INET6_ADDRSTRLEN], own[INET6_ADDRSTRLEN];
	struct netdev dev;
	uint32_t mtu;

	gid_text(&ask->av->dgid, text, sizeof(text));
	gid_text(from, own, sizeof(own));
	if (way == ROUTE_UNKNOWN)
		return refuse(EMFILE,
			      "QP 0x%x: no memory or no descriptor to ask the kernel for the route "
			      "to %s; raise ulimit -n",
			      e->q.qp.qpn, text);
	gid_table_netdev(device_of(&e->q)->gids, &dev);
	if (dev.loopback)
		return refuse(EHOSTUNREACH,
			      "QP 0x%x: %s is not an address of this host, and there is no "
			      "link to the network on %s; connect to an address of this host, or "
			      "name another interface in SOFTHCA_DEVICES",
			      e->q.qp.qpn, text, dev.name);
	mtu = 128U << netdev_active_mtu(&dev);
	if (ask->mtu > mtu)
		return refuse(EINVAL,
			      "QP 0x%x: path_mtu %u does not fit %s, whose MTU of %u leaves %u; "
			      "lower path_mtu or raise the interface's MTU",
			      e->q.qp.qpn, ask->mtu, dev.name, dev.mtu, mtu);
	if (way == ROUTE_NONE)
		return refuse(EHOSTUNREACH,
			      "QP 0x%x: the kernel has no route from %s to %s; add one",
			      e->q.qp.qpn, own, text);
	return 0;
}

/* @way: to the address, not to a group. */
static int network_find(struct eqp *e, const struct path_ask *ask, enum route_kind way,
			struct dest **out)
{
	struct gid_entry from;
	int err = gid_table_get(device_of(&e->q)->gids, ask->av->sgid_index, &from);

	if (err || !from.used)
		return refuse(EINVAL,
			      "QP 0x%x: sgid_index %u is an empty entry of the GID table; use one "
			      "that ibv_query_gid() shows",
			      e->q.qp.qpn, ask->av->sgid_index);
	/* Each process that has an SRQ knows the port of an XRC QP: that stays. */
	uint32_t label = e->q.qp.service->wqe == WQE_XRC ? 0 : ask->av->flow_label;
	const struct link_path p = { .net = { from.gid, ask->av->dgid },
				     .ifindex = from.ifindex,
				     .mtu = ask->mtu,
				     .lqpn = e->q.qp.qpn,
				     .rqpn = ask->dqpn,
				     .flow_label = label,
				     .sport = e->q.qp.udp_sport,
				     .wish = ask->av->sport,
				     .tclass = ask->av->traffic_class,
				     .hop_limit = ask->av->hop_limit };

	err = grh_gid_is_group(ask->av->dgid.raw) ? 0 : check_route(e, ask, &from.gid, way);
	return err ? err : links_dest(e->node, &p, out);
}

/* --- choosing --- */

static int find(struct eqp *e, const struct path_ask *ask, struct dest **out)
{
	struct gid_table *gids = device_of(&e->q)->gids;
	struct gid_entry from = { 0 };
	enum route_kind way;
	struct dest *d;
	int err;

	gid_table_get(gids, ask->av->sgid_index, &from);
	way = gid_table_route(gids, &from.gid, &ask->av->dgid);
	if (way == ROUTE_LOCAL)
		return path_to_number(e, ask->av, ask->dqpn, out);
	err = network_find(e, ask, way, &d);
	return err ? err : wrapped(e, ask->av, d, out);
}

int path_find(struct eqp *e, const struct path_ask *ask, struct dest **out)
{
	int err;

	UNCANCELLED(err, find(e, ask, out)); /* a datagram may be the first to its address */
	return err;
}

bool path_usable(struct tqp *q)
{
	const struct ibv_global_route *to = &q->qp.attr.alt_ah_attr.grh;
	static const union ibv_gid none;
	struct device *d = device_of(q);
	struct gid_entry from;

	return q->alternate && !gid_table_get(d->gids, to->sgid_index, &from) &&
	       memcmp(&from.gid, &none, sizeof(none)) &&
	       (!q->alternate->same_host ||
		gid_table_route(d->gids, &from.gid, &to->dgid) == ROUTE_LOCAL);
}

static int find_cast(struct eqp *e, const struct av *av, struct dest **out)
{
	struct path_ask ask = { av, MULTICAST_QPN, e->q.req.mtu };
	struct netdev dev;
	struct dest *d;
	int err;

	gid_table_netdev(device_of(&e->q)->gids, &dev);
	if (dev.loopback)
		return ENETUNREACH;
	if (av->dgid.raw[0] == 0xff && (av->dgid.raw[1] & 0xf) <= SCOPE_INTERFACE)
		return refuse(EHOSTUNREACH,
			      "QP 0x%x: the kernel lets no datagram to a group of scope 1 "
			      "(ff01::/16, interface-local) out of this host; send to ff02:: or "
			      "wider",
			      e->q.qp.qpn);
	err = network_find(e, &ask, ROUTE_OUT, &d);
	return err ? err : with_faults(d, out);
}

int path_find_cast(struct eqp *e, const struct av *av, struct dest **out)
{
	int err;

	UNCANCELLED(err, find_cast(e, av, out)); /* as path_find() */
	return err;
}

/* --- of connected QPs --- */

int path_of_modify(struct eqp *e, const struct ibv_qp_attr *attr, int mask, bool alternate,
		   struct dest **out)
{
	const struct ibv_qp_attr *old = &e->q.qp.attr;
	struct av av;
	struct path_ask ask = { .av = &av };
	const struct ibv_ah_attr *ah = alternate ? &attr->alt_ah_attr : &attr->ah_attr;
	unsigned int mtu;

	*out = NULL;
	if (!(mask & (alternate ? IBV_QP_ALT_PATH : IBV_QP_AV)) || !ah->is_global ||
	    !e->q.qp.service->connected || e->q.qp.service->wqe == WQE_DC)
		return 0;
	mtu = mask & IBV_QP_PATH_MTU ? attr->path_mtu : old->path_mtu;
	if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
		return 0; /* qp_modify() refuses it */
	av_from_attr(ah, &av);
	/* Read at the last moment: of a target QP other members may change them. */
	ask.dqpn = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : old->dest_qp_num;
	ask.mtu = 128U << mtu;
	return path_find(e, &ask, out);
}

void path_put(struct dest *d)
{
	if (d)
		d->ops->put(d);
}

void path_swap(struct eqp *e, struct dest *d)
{
	struct dest *old = e->q.dest;

	e->q.dest = d;
	if (!old)
		return;
	old->ops->cancel(old, &e->q.waiter);
	tqp_unblock(&e->q);
	old->ops->put(old);
}

void path_swap_alternate(struct eqp *e, struct dest *d)
{
	struct dest *old = e->q.alternate;

	e->q.alternate = d;
	path_put(old);
}

void path_make_grh(void *arg, const struct seg *s, uint8_t grh[40], uint8_t *l3)
{
	struct eqp *e = node_qp(arg, s->sqpn);
	struct gid_entry from;
	struct grh g = { .payload_len = s->len + GRH_UD_BYTES };

	if (!e || gid_table_get(device_of(&e->q)->gids, s->av->sgid_index, &from))
		return;
	memcpy(g.sgid, from.gid.raw, sizeof(g.sgid));
	memcpy(g.dgid, s->av->dgid.raw, sizeof(g.dgid));
	g.tclass = s->av->traffic_class;
	g.hop_limit = s->av->hop_limit;
	g.flow_label = s->av->flow_label;
	g.next_hdr = from.type == GID_V2 ? GRH_NEXT_UDP : GRH_NEXT_BTH;
	grh_build(&g, grh);
	*l3 = GRH_L3_ROCE_V1;
	if (from.type == GID_V2)
		*l3 = grh_version(grh) == GRH_IPV4 ? GRH_L3_IPV4 : GRH_L3_IPV6;
}
