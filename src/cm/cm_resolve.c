// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cm/cm_addr.h"
#include "cm/cm_blame.h"
#include "cm/cm_call.h"
#include "cm/cm_event.h"
#include "cm/cm_neigh.h"
#include "cm/cm_path.h"
#include "cm/cm_port.h"
#include "cm/cm_return.h"
#include "cm/cm_talk.h"
#include "net/gid.h"
#include "net/route.h"
#include "obs/explain.h"

enum {
	BACKLOG_MAX = 1024, /* as the default of net.rdma_ucm.max_backlog */
	FLOW_MASK = 0xfffff,
	PS_IPOIB = RDMA_PS_IPOIB,
	ACK_TIMEOUT_DEFAULT = 17,
};

/* --- bind, listen --- */

static bool v6_only(void)
{
	FILE *f = fopen("/proc/sys/net/ipv6/bindv6only", "re");
	int on = 0;

	if (f && fscanf(f, "%d", &on) != 1)
		on = 0;
	if (f)
		fclose(f);
	return on;
}

/* As Linux, which looks for an InfiniBand port with that address. */
static int no_infiniband(const char *call)
{
	return refuse(ENODEV,
		      "%s: no RDMA device has an AF_IB address, since all ports are RoCE; use "
		      "AF_INET or AF_INET6",
		      call);
}

static int bind_check(const struct cm_id *id, const struct sockaddr *a, const char *call)
{
	const struct sockaddr_in6 *v6 = (const void *)a;

	if (cm_addr_infiniband(a) && id->phase == PHASE_IDLE)
		return no_infiniband(call);
	if (!cm_addr_known(a))
		return refuse(EINVAL, "%s: address family %u; use AF_INET or AF_INET6", call,
			      a->sa_family);
	if (id->phase != PHASE_IDLE)
		return refuse(EINVAL, "%s: the id is bound already; make another id", call);
	if (id->ps == PS_IPOIB)
		return refuse(EINVAL, "%s: RDMA_PS_IPOIB is not for RoCE; use RDMA_PS_UDP", call);
	if (a->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) && !v6->sin6_scope_id)
		return refuse(EINVAL,
			      "%s: a link-local address needs a scope id; set sin6_scope_id", call);
	return 0;
}

static int no_address(const struct sockaddr *a, const char *call)
{
	char text[INET6_ADDRSTRLEN];

	cm_blame_address(a, text);
	if (cm_addr_exists(a) && !cm_addr_group(a))
		return refuse(ENODEV,
			      "%s: no RDMA device has the address %s; take one that `softhca list` "
			      "shows, or name its interface in SOFTHCA_DEVICES",
			      call, text);
	return refuse(EADDRNOTAVAIL,
		      "%s: no interface has the address %s; take one that `ip addr` shows", call,
		      text);
}

static int bind_locked(struct cm_id *id, const struct sockaddr *a, const char *call)
{
	struct sockaddr_storage text;
	int err = bind_check(id, a, call);

	if (err)
		return err;
	cm_addr_copy(&text, a);
	if (!cm_addr_any(a) && cm_addr_own_device(a, &id->way) && !cm_addr_loop(a))
		return no_address(a, call);
	id->src = text;
	if (!id->has_afonly)
		id->afonly = a->sa_family == AF_INET || v6_only();
	err = cm_port_bind(id, call);
	if (err) {
		memset(&id->src, 0, sizeof(id->src));
		memset(&id->way, 0, sizeof(id->way));
		return err;
	}
	id->phase = PHASE_BOUND;
	return 0;
}

int cm_call_bind(struct cm_id *id, const struct sockaddr *addr)
{
	int err = cm_enter(id, "rdma_bind_addr");

	if (err)
		return err;
	err = bind_locked(id, addr, "rdma_bind_addr");
	cm_leave();
	return err;
}

/* MADs from networks reach this process. */
static void hear(const struct cm_id *id)
{
	static uint32_t heard[NODE_DEVICES]; /* epochs */

	for (unsigned int i = 0; i < cm.n_hcas; i++) {
		if ((id->way.hca && id->way.hca != cm.hca[i]) || heard[i] == cm.epoch)
			continue;
		heard[i] = cm.epoch;
		gsi_listen(cm.hca[i]);
	}
	cm_return_begin();
}

static int listen_locked(struct cm_id *id, int backlog)
{
	const struct sockaddr_in any = { .sin_family = AF_INET };
	int err = 0;

	if (id->phase == PHASE_IDLE)
		err = bind_locked(id, (const struct sockaddr *)&any, "rdma_listen");
	if (err)
		return err;
	if (id->phase != PHASE_BOUND)
		return refuse(EINVAL,
			      "rdma_listen: the id does something else already; make another id");
	err = cm_port_listen(id);
	if (err)
		return err;
	id->backlog = backlog <= 0 || backlog > BACKLOG_MAX ? BACKLOG_MAX : backlog;
	id->phase = PHASE_LISTEN;
	list_del(&id->listening); /* it may have listened before its channel went */
	list_add_tail(&cm.listeners, &id->listening);
	hear(id);
	return 0;
}

int cm_call_listen(struct cm_id *id, int backlog)
{
	int err = cm_enter(id, "rdma_listen");

	if (err)
		return err;
	err = listen_locked(id, backlog);
	cm_leave();
	return err;
}

/* --- the way to a peer --- */

/* The source address: the bound one, else the kernel's choice. "Any" destinations are this host. */
static int choose_source(struct cm_id *id, const struct sockaddr *dst)
{
	struct sockaddr_storage src;
	uint16_t port = cm_addr_port(&id->src);
	int err;

	bool given = id->src.ss_family && !cm_addr_wide(id);
	char text[INET6_ADDRSTRLEN];

	if (given && cm_addr_group(dst))
		return 0;
	err = cm_addr_source(dst, given ? &id->src : NULL, &src);
	if (err)
		return refuse(err,
			      "rdma_resolve_addr: the kernel has no route to %s; take an address "
			      "that `ip route get` finds%s",
			      cm_blame_address(dst, text), given ? " from the bound one" : "");
	if (given)
		return 0;
	id->src = src;
	cm_addr_set_port(&id->src, port);
	return 0;
}

static void loop_instead_of_any(struct sockaddr_storage *dst)
{
	const struct in6_addr loop = IN6ADDR_LOOPBACK_INIT;

	if (!cm_addr_any(dst))
		return;
	if (dst->ss_family == AF_INET)
		((struct sockaddr_in *)dst)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)dst)->sin6_addr = loop;
}

/* 0, or the -errno of an ADDR_ERROR. *@route: the kernel's, of a way through a network. */
static int find_way(struct cm_id *id, struct rtnl_route *route)
{
	struct route_ends ends;
	union ibv_gid to;

	if (!id->way.hca && cm_addr_device(&id->src, &id->way))
		return -ENODEV;
	cm_addr_gid(&id->dst, &to);
	id->way.dgid = to;
	if (cm_addr_group(&id->dst))
		return 0;
	ends = (struct route_ends){ to, id->way.sgid, id->way.ifindex };
	id->way.net = route_ask(&ends, route) != ROUTE_LOCAL;
	if (id->way.net)
		return 0;
	/* On this host: the address of a device, as a queue pair can be told. */
	struct cm_way there = { 0 };

	if (cm_addr_gid_device(&to, 0, &there) && cm_addr_device(&id->dst, &there))
		return -ENODEV;
	id->way.dgid = there.sgid;
	return 0;
}

static int no_family(void)
{
	return refuse(EINVAL, "rdma_resolve_addr: the address family is neither AF_INET nor "
			      "AF_INET6; use one of these");
}

/* @src: the id's own, or one that is given; NULL: none. */
static int check_families(const struct sockaddr *src, const struct sockaddr *dst)
{
	bool same = !src || src->sa_family == dst->sa_family;

	if ((src && cm_addr_infiniband(src)) || (same && cm_addr_infiniband(dst)))
		return no_infiniband("rdma_resolve_addr");
	if (!cm_addr_known(dst) || (src && !cm_addr_known(src)))
		return no_family();
	return same ? 0
		    : refuse(EINVAL, "rdma_resolve_addr: source and destination are of two "
				     "families; give both of "
				     "one");
}

static int resolve_check(const struct cm_id *id, const struct sockaddr *src,
			 const struct sockaddr *dst)
{
	int err;

	if (src && !src->sa_family)
		src = NULL;
	if (src && !cm_addr_known(src) && src->sa_family != AF_IB)
		return no_family();
	if (id->phase != PHASE_IDLE && id->phase != PHASE_BOUND)
		return refuse(EINVAL,
			      "rdma_resolve_addr: the id is resolved or connected already; make "
			      "another id");
	err = check_families(id->phase == PHASE_BOUND ? (const void *)&id->src : src, dst);
	if (err || id->ps != PS_IPOIB)
		return err;
	return refuse(EINVAL, "rdma_resolve_addr: RDMA_PS_IPOIB is not for RoCE; use RDMA_PS_UDP");
}

static void addr_resolved(struct cm_id *id, int status)
{
	struct cm_event *e = id->answer;

	id->phase = status ? PHASE_BOUND : PHASE_ADDR;
	if (status)
		cm_blame_event(id, RDMA_CM_EVENT_ADDR_ERROR, status);
	if (!e || !id->channel)
		return; /* the program has destroyed the channel */
	id->answer = NULL;
	e->news.event = status ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED;
	e->news.status = status;
	cm_event_queue(e);
}

/* What tells how it went is made before anything else: whoever waits for it waits for ever. */
static int make_answer(struct cm_id *id)
{
	if (!id->answer)
		id->answer = cm_event_new(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return id->answer || !id->channel
		       ? 0
		       : refuse_memory("rdma_resolve_addr", sizeof(struct cm_event));
}

static int resolve_locked(struct cm_id *id, const struct sockaddr *src, const struct sockaddr *dst,
			  int ms)
{
	struct rtnl_route route = { 0 };
	int err = resolve_check(id, src, dst);

	err = err ? err : make_answer(id);
	if (!err && id->phase == PHASE_IDLE && src && src->sa_family)
		err = bind_locked(id, src, "rdma_resolve_addr");
	if (err)
		return err;
	cm_addr_copy(&id->dst, dst);
	loop_instead_of_any(&id->dst);
	err = choose_source(id, (const struct sockaddr *)&id->dst);
	err = err ? err : cm_port_resolve(id);
	if (err) {
		if (id->phase == PHASE_IDLE) /* the next call may ask for another family's */
			memset(&id->src, 0, sizeof(id->src));
		return err;
	}
	err = find_way(id, &route);
	hear(id);
	if (!err && id->way.net)
		cm_neigh_await(id, ms, &route, addr_resolved);
	else
		addr_resolved(id, err);
	return 0;
}

int cm_call_resolve_addr(struct cm_id *id, const struct sockaddr *src, const struct sockaddr *dst,
			 int ms)
{
	int err = cm_enter(id, "rdma_resolve_addr");

	if (err)
		return err;
	err = resolve_locked(id, src, dst, ms);
	cm_leave();
	return err;
}

/* RoCE has no subnet administrator: what Linux would make of the addresses. */
static void set_route(struct cm_id *id)
{
	const struct sockaddr_in6 *v6 = (const void *)&id->dst;
	uint32_t label = id->dst.ss_family == AF_INET6 ? ntohl(v6->sin6_flowinfo) & FLOW_MASK : 0;

	id->way.tclass = id->tos;
	id->way.flow_label =
		label ? label : (cm_addr_port(&id->src) * 31U + cm_addr_port(&id->dst)) & FLOW_MASK;
	id->way.ack_timeout =
		id->has_ack_timeout && id->ack_timeout ? id->ack_timeout : ACK_TIMEOUT_DEFAULT;
}

/* NULL: there is no memory, or nobody to hear of it. */
static int make_route_event(struct cm_id *id, const char *call, struct cm_event **out)
{
	*out = cm_event_new(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return *out || !id->channel ? 0 : refuse_memory(call, sizeof(**out));
}

static void route_resolved(struct cm_id *id, struct cm_event *e)
{
	id->phase = PHASE_ROUTE;
	if (e)
		cm_event_queue(e);
}

static int route_locked(struct cm_id *id, int ms)
{
	struct cm_event *e;
	int err;

	if (id->phase != PHASE_ADDR || ms <= 0)
		return refuse(EINVAL,
			      "rdma_resolve_route: needs a resolved address and a time of "
			      "at least 1 ms; call rdma_resolve_addr and wait for ADDR_RESOLVED");
	err = make_route_event(id, "rdma_resolve_route", &e);
	if (err)
		return err;
	set_route(id);
	route_resolved(id, e);
	return 0;
}

int cm_call_resolve_route(struct cm_id *id, int ms)
{
	int err = cm_enter(id, "rdma_resolve_route");

	if (err)
		return err;
	err = route_locked(id, ms);
	cm_leave();
	return err;
}

/* --- options --- */

static int set_int(struct cm_id *id, int name, const void *val, size_t len)
{
	int on;

	if (len != sizeof(on))
		return EINVAL;
	memcpy(&on, val, sizeof(on));
	if (name == RDMA_OPTION_ID_REUSEADDR) {
		if (id->phase == PHASE_LISTEN)
			return EINVAL;
		id->reuse = on;
		return 0;
	}
	if (id->phase != PHASE_IDLE && id->phase != PHASE_BOUND)
		return EINVAL;
	id->afonly = on;
	id->has_afonly = true;
	return 0;
}

static int set_byte(struct cm_id *id, int name, const void *val, size_t len)
{
	const uint8_t *byte = val;

	if (len != 1)
		return EINVAL;
	if (name == RDMA_OPTION_ID_TOS) {
		id->tos = *byte;
		return 0;
	}
	if (id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND)
		return EINVAL;
	id->ack_timeout = *byte & 31;
	id->has_ack_timeout = true;
	return 0;
}

/* A path of the program's own, for rdma_resolve_route(): ROUTE_RESOLVED comes, too. */
static int set_path(struct cm_id *id, const void *val, size_t len)
{
	struct cm_event *e;
	int err = make_route_event(id, "rdma_set_option", &e);

	if (err)
		return err;
	err = cm_path_take(id, val, len);
	if (err)
		free(e);
	else
		route_resolved(id, e);
	return err;
}

static int set_id_option(struct cm_id *id, int name, const void *val, size_t len)
{
	if (name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT)
		return set_byte(id, name, val, len);
	if (name == RDMA_OPTION_ID_REUSEADDR || name == RDMA_OPTION_ID_AFONLY)
		return set_int(id, name, val, len);
	return ENOSYS;
}

int cm_call_set_option(struct cm_id *id, int level, int name, const void *val, size_t len)
{
	int err = cm_enter(id, "rdma_set_option");

	if (err)
		return err;
	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH) {
		err = set_path(id, val, len);
		cm_leave();
		return err;
	}
	err = level == RDMA_OPTION_ID ? set_id_option(id, name, val, len) : ENOSYS;
	cm_leave();
	return err ? refuse(err,
			    "rdma_set_option: level %d, option %d, %zu B: unknown, of another "
			    "length, or not in this state; see rdma_set_option(3)",
			    level, name, len)
		   : 0;
}
