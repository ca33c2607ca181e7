// SPDX-License-Identifier: MIT
/* Ids: beginning, addresses, options. */
#include "rdmacm/id.h"
#include <stdlib.h>
#include <string.h>

/* --- beginning --- */

struct id *id_alloc(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
		    enum ibv_qp_type type)
{
	struct id *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->id.context = context;
	i->id.ps = ps;
	i->id.qp_type = type;
	i->id.channel = ch;
	pthread_mutex_init(&i->lock, NULL);
	pthread_cond_init(&i->all_acked, NULL);
	return i;
}

void id_free(struct id *i)
{
	if (i->sync && i->id.channel)
		rdma_destroy_event_channel(i->id.channel);
	pthread_cond_destroy(&i->all_acked);
	pthread_mutex_destroy(&i->lock);
	free(i->id.route.path_rec);
	free(i->connect_data);
	free(i->init);
	free(i);
}

int id_own_channel(struct id *i)
{
	if (!i->id.channel) {
		i->sync = true;
		i->id.channel = channel_for(i);
	}
	return i->id.channel ? 0 : errno;
}

int id_type_of(enum rdma_port_space ps, enum ibv_qp_type *out)
{
	switch (ps) {
	case RDMA_PS_TCP:
	case RDMA_PS_IB:
		*out = IBV_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*out = IBV_QPT_UD;
		return 0;
	default:
		return EINVAL;
	}
}

int id_make(struct rdma_event_channel *ch, struct rdma_cm_id **out, void *context,
	    enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct id *i = NULL;
	int err = opened_any();

	if (!err) {
		i = id_alloc(ch, context, ps, type);
		err = i ? id_own_channel(i) : ENOMEM;
	}
	if (!err)
		err = softhca_cm()->id_create(((struct channel *)i->id.channel)->cm, i, ps, type,
					      &i->cm);
	if (err) {
		if (i)
			id_free(i);
		return err;
	}
	*out = &i->id;
	return 0;
}

int given(const void *p, const char *call, const char *what)
{
	return p ? 0 : softhca_refuse(EINVAL, "%s: %s is NULL; give one", call, what);
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	enum ibv_qp_type type;
	int err = given(id, "rdma_create_id", "id");

	err = err ? err : id_type_of(ps, &type);
	return minus1_errno(err ? err : id_make(channel, id, context, ps, type));
}

void id_ack(struct id *i, struct group *g)
{
	pthread_mutex_lock(&i->lock);
	i->acked++;
	if (g)
		g->acked = true;
	pthread_cond_broadcast(&i->all_acked);
	pthread_mutex_unlock(&i->lock);
}

/* --- addresses --- */

/* Where Linux's library puts a path's flags: for MADs, primary, both ways. */
enum { PREFERENCE = 0x2b };

static int set_path(struct id *i, const struct cm_view *v)
{
	struct ibv_sa_path_rec *p = i->id.route.path_rec;

	if (!p)
		p = calloc(1, sizeof(*p));
	if (!p)
		return ENOMEM;
	p->dgid = v->dgid;
	p->sgid = v->sgid;
	p->flow_label = htobe32(v->flow_label);
	p->hop_limit = v->hop_limit;
	p->traffic_class = v->tclass;
	p->reversible = 1;
	p->numb_path = 1;
	p->pkey = htobe16(0xffff);
	p->sl = v->sl;
	p->mtu_selector = 2;
	p->mtu = v->mtu;
	p->rate_selector = 2;
	p->rate = v->rate;
	p->packet_life_time_selector = 2;
	p->packet_life_time = v->packet_life;
	p->preference = PREFERENCE;
	i->id.route.path_rec = p;
	i->id.route.num_paths = 1;
	return 0;
}

/* As Linux shows the peer of an id that has none: the address 0 of its family. */
static void set_no_peer(struct cm_view *v)
{
	if (v->dst.ss_family)
		return;
	v->dst.ss_family = v->src.ss_family;
	if (v->src.ss_family == AF_INET)
		v->dgid.raw[10] = v->dgid.raw[11] = 0xff;
}

int id_look(struct id *i)
{
	struct cm_view v;
	int err = softhca_cm()->view(i->cm, &v);

	if (err)
		return err;
	set_no_peer(&v);
	memcpy(&i->id.route.addr.src_storage, &v.src, sizeof(v.src));
	memcpy(&i->id.route.addr.dst_storage, &v.dst, sizeof(v.dst));
	if (!v.bound)
		return 0;
	if (!i->dev) {
		err = opened_find(v.device, &i->dev);
		if (!err && !i->id.pd)
			err = opened_pd(i->dev, &i->id.pd);
		if (err)
			return err;
		i->id.verbs = i->dev->verbs;
		i->id.port_num = 1;
	}
	i->id.route.addr.addr.ibaddr.sgid = v.sgid;
	i->id.route.addr.addr.ibaddr.dgid = v.dgid;
	i->id.route.addr.addr.ibaddr.pkey = 0; /* as Linux shows it of Ethernet */
	return v.routed ? set_path(i, &v) : 0;
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct id *i = to_id(id);
	int err = addr ? softhca_cm()->bind(i->cm, addr) : EINVAL;

	return minus1_errno(err ? err : id_look(i));
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	struct id *i = to_id(id);
	int err = softhca_cm()->listen(i->cm, backlog);

	return minus1_errno(err ? err : id_look(i));
}

static __be16 port_of(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_port;
	return a->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port : 0;
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.src_addr);
}

EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.dst_addr);
}

/* --- other things --- */

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
			   size_t optlen)
{
	struct id *i = to_id(id);

	if (!optval && optlen) /* as Linux, which copies it first */
		return minus1_errno(softhca_refuse(
			EFAULT, "rdma_set_option: the value of %zu B is NULL; give its address",
			optlen));
	return minus1_errno(softhca_cm()->set_option(i->cm, level, optname, optval, optlen));
}

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	return minus1_errno(softhca_cm()->notify(to_id(id)->cm, event));
}
