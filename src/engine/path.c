// SPDX-License-Identifier: MIT
#include "engine/path.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include "engine/inbound.h"
#include "engine/loop.h"
#include "engine/port_wait.h"
#include "engine/tracing.h"
#include "hca/ah.h"
#include "link/fault_live.h"
#include "net/rtnl.h"
#include "obs/explain.h"
#include "udp/udp.h"
#include "util/clock.h"
#include "util/log.h"
#include "wire/grh.h"
#include "wire/opcode.h"

#define UDP_BTH_DETH_ICRC (8 + 12 + 8 + 4)
#define SCOPE_INTERFACE	  1
#define KEEP_NS		  UINT64_C(100000000)

struct path_kept { /* where the last datagrams went */
	struct av av;
	uint32_t dqpn;
	struct dest *dest; /* NULL: there is none */
	uint64_t until;
};

/* SOFTHCA_FAULT wraps every path. */
static int with_faults(struct dest *d, struct dest **out)
{
	const char *text = getenv("SOFTHCA_FAULT");
	struct fault_config cfg;
	int err;

	*out = d;
	if (!text)
		return 0;
	fault_live_start();
	err = fault_parse(text, &cfg);
	if (!err)
		err = fault_wrap(d, &cfg, out);
	if (err)
		d->ops->put(d);
	return err;
}

/* As the program sends: before faults, with which a trace looks like one taken at the sender. */
static int wrapped(struct eqp *e, const struct av *to, struct dest *d, struct dest **out)
{
	struct dest *with;
	int err = with_faults(d, &with);

	return err ? err : tracing_wrap(e, to, with, out);
}

static int to_number(struct eqp *e, const struct av *to, uint32_t qpn, struct dest **out)
{
	struct dest *d;
	int err = host_dest(e->node->host, qpn, &d);

	return err ? err : wrapped(e, to, d, out);
}

int path_to_number(struct eqp *e, uint32_t qpn, struct dest **out)
{
	return to_number(e, NULL, qpn, out);
}

/* The number of an SRQ tells its process, as a QPN does. Through the network there is one way to
 * all of them, but the order between two is kept in the same manner: by one wait. */
bool path_route(struct tqp *q, uint32_t srqn, bool idle)
{
	struct eqp *e = to_eqp(q);
	uint32_t slot = number_slot(srqn) + 1;
	struct dest *d, *old = q->dest;

	if (likely(e->route == slot))
		return true;
	if (!idle)
		return false;
	if (old && old->net) {
		e->route = slot;
		return true;
	}
	if (path_to_number(e, srqn, &d))
		return true; /* as it is: what nobody takes is lost */
	e->route = slot;
	q->dest = d;
	if (old) {
		old->ops->cancel(old, &q->waiter);
		old->ops->put(old);
	}
	return true;
}

/* --- the network --- */

int path_network(struct node *n)
{
	struct udp_config cfg = { tracing() ? tracing_packet : inbound_packet, n,
				  host_cast_circle(n->host), host_first_slot(n->host) };
	struct udp *u = NULL;
	int err = 0;

	pthread_mutex_lock(&n->lock);
	if (!n->udp) {
		err = udp_create(&cfg, &u);
		if (!err)
			store_release(&n->udp, u); /* pairs with loop.c, inbound.c, groups.c */
	}
	pthread_mutex_unlock(&n->lock);
	if (u)
		loop_wake(n);
	return err;
}

/* Does the kernel know a way? A host where netlink is refused tries. */
static bool has_route(const union ibv_gid *gid, uint32_t ifindex)
{
	bool ipv4 = gid_is_ipv4(gid);
	struct rtnl_route route = { 0 };
	int err = rtnl_route(ipv4 ? AF_INET : AF_INET6, ipv4 ? gid->raw + 12 : gid->raw,
			     gid_is_link_local(gid) ? ifindex : 0, &route);

	if (err == EPERM || err == EACCES || err == EAFNOSUPPORT)
		return true;
	return !err && (route.type == RTN_UNICAST || route.type == RTN_LOCAL);
}

static int check_route(struct eqp *e, const struct path_ask *ask, const struct gid_entry *from)
{
	const union ibv_gid *to = &ask->av->dgid;
	struct netdev dev;
	char text[INET6_ADDRSTRLEN];
	uint32_t mtu;

	gid_text(to, text, sizeof(text));
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
	if (!has_route(to, from->ifindex))
		return refuse(EHOSTUNREACH, "QP 0x%x: the kernel has no route to %s; add one",
			      e->q.qp.qpn, text);
	return 0;
}

static int network_find(struct eqp *e, const struct path_ask *ask, struct dest **out)
{
	struct gid_entry from;
	int err = gid_table_get(device_of(&e->q)->gids, ask->av->sgid_index, &from);

	if (err || !from.used)
		return refuse(EINVAL, "QP 0x%x: sgid_index %u is an empty entry of the GID table",
			      e->q.qp.qpn, ask->av->sgid_index);
	struct udp_path p = { .net = { from.gid, ask->av->dgid },
			      .ifindex = from.ifindex,
			      .mtu = ask->mtu,
			      .lqpn = e->q.qp.qpn,
			      .rqpn = ask->dqpn,
			      .flow_label = ask->av->flow_label,
			      .tclass = ask->av->traffic_class,
			      .hop_limit = ask->av->hop_limit };

	err = grh_gid_is_group(ask->av->dgid.raw) ? 0 : check_route(e, ask, &from);
	err = err ? err : path_network(e->node);
	return err ? err : udp_dest(e->node->udp, &p, out);
}

/* @loud: says what is held by others. */
static void listen_all(struct device *d, bool loud)
{
	struct gid_entry entry;
	struct netdev dev;
	char why[EXPLAIN_TEXT];
	bool held = false;

	gid_table_netdev(d->gids, &dev);
	if (dev.loopback || !dev.up || path_network(d->node))
		return;
	for (unsigned int i = 1; i < GID_TABLE_LEN; i += 2) {
		if (gid_table_get(d->gids, i, &entry) || !entry.used ||
		    udp_listen(d->node->udp, &entry.gid, entry.ifindex) != EADDRINUSE)
			continue;
		held = true;
		if (loud && !explain_last(why, sizeof(why)))
			log_warn("%s", why);
	}
	if (held)
		port_wait_begin(d->node, clock_now());
}

void path_listen(struct eqp *e)
{
	struct device *d = device_of(&e->q);

	if (!xchg_acq_rel(&e->listens, 1))
		fetch_add_relaxed(&d->listeners, 1);
	listen_all(d, true);
}

void path_unlisten(struct eqp *e)
{
	if (xchg_acq_rel(&e->listens, 0))
		fetch_sub_acq_rel(&device_of(&e->q)->listeners, 1);
}

void path_follow(struct device *d)
{
	struct udp *u = load_acquire(&d->node->udp); /* pairs with path_network() */

	if (u)
		udp_tidy(u);
	if (load_relaxed(&d->listeners))
		listen_all(d, false);
}

/* --- choosing --- */

int path_find(struct eqp *e, const struct path_ask *ask, struct dest **out)
{
	struct dest *d;
	int err;

	if (gid_table_is_local(device_of(&e->q)->gids, &ask->av->dgid))
		return to_number(e, ask->av, ask->dqpn, out);
	err = network_find(e, ask, &d);
	return err ? err : wrapped(e, ask->av, d, out);
}

void path_forget(struct eqp *e)
{
	struct path_kept *k = e->kept;

	e->kept = NULL;
	if (!k)
		return;
	if (k->dest)
		k->dest->ops->put(k->dest);
	free(k);
}

static bool same_way(const struct av *a, const struct av *b)
{
	return !memcmp(&a->dgid, &b->dgid, sizeof(a->dgid)) && a->flow_label == b->flow_label &&
	       a->sgid_index == b->sgid_index && a->hop_limit == b->hop_limit &&
	       a->traffic_class == b->traffic_class;
}

static bool is_kept(const struct path_kept *k, const struct av *av, uint32_t dqpn, uint64_t now)
{
	return k && k->dqpn == dqpn && k->until > now && same_way(&k->av, av);
}

/* A way through the network is found by system calls: it is kept for a moment, and so is that there
 * is none (@d NULL). */
static void keep(struct eqp *e, const struct av *av, uint32_t dqpn, struct dest *d)
{
	struct path_kept *k = malloc(sizeof(*k));

	path_forget(e);
	if (!k)
		return;
	if (d)
		fetch_add_relaxed(&d->refs, 1);
	*k = (struct path_kept){ .dqpn = dqpn, .dest = d, .until = clock_now() + KEEP_NS };
	memcpy(&k->av, av, sizeof(*av));
	e->kept = k;
}

bool path_usable(struct tqp *q)
{
	const struct ibv_global_route *to = &q->qp.attr.alt_ah_attr.grh;
	static const union ibv_gid none;
	struct device *d = device_of(q);
	struct gid_entry from;

	return q->alternate && !gid_table_get(d->gids, to->sgid_index, &from) &&
	       memcmp(&from.gid, &none, sizeof(none)) &&
	       (!q->alternate->same_host || gid_table_is_local(d->gids, &to->dgid));
}

int path_resolve(struct tqp *q, const struct av *av, uint32_t dqpn, struct dest **out)
{
	struct eqp *e = to_eqp(q);
	struct path_ask ask = { av, dqpn, q->req.mtu };
	int err;

	if (unlikely(e->kept != NULL) && is_kept(e->kept, av, dqpn, clock_now())) {
		*out = e->kept->dest;
		fetch_add_relaxed(&(*out)->refs, 1);
		return 0;
	}
	err = path_find(e, &ask, out);
	if (!err && (*out)->net)
		keep(e, av, dqpn, *out);
	return err;
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
	err = network_find(e, &ask, &d);
	return err ? err : with_faults(d, out);
}

int path_cast(struct eqp *e, const struct av *av, struct dest **out)
{
	struct dest *d = NULL;
	int err;

	if (e->kept && is_kept(e->kept, av, MULTICAST_QPN, clock_now())) {
		*out = e->kept->dest;
		if (!*out)
			return ENETUNREACH;
		fetch_add_relaxed(&(*out)->refs, 1);
		return 0;
	}
	err = find_cast(e, av, &d);
	keep(e, av, MULTICAST_QPN, err ? NULL : d);
	if (!err)
		*out = d;
	return err;
}

void path_make_grh(void *arg, const struct seg *s, uint8_t grh[40], uint8_t *l3)
{
	struct eqp *e = node_qp(arg, s->sqpn);
	struct gid_entry from;
	struct grh g = { .payload_len = s->len + UDP_BTH_DETH_ICRC };

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
