// SPDX-License-Identifier: MIT
/* Endpoints: ids that come resolved, with a queue pair. */
#include <stdlib.h>
#include <string.h>
#include "rdmacm/id.h"

enum { MS = 2000 };

/* As the kernel, which takes an address with its length. */
static int check_len(const struct sockaddr *a, socklen_t len, const char *name)
{
	socklen_t of_family = !a			 ? 0
			      : a->sa_family == AF_INET	 ? sizeof(struct sockaddr_in)
			      : a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							 : 0;

	if (of_family && len == of_family)
		return 0;
	return softhca_refuse(EINVAL,
			      "rdma_create_ep: ai_%s_addr has family %d, and ai_%s_len is %u; a "
			      "sockaddr_in (%zu B) or a sockaddr_in6 (%zu B) is needed",
			      name, a ? a->sa_family : 0, name, len, sizeof(struct sockaddr_in),
			      sizeof(struct sockaddr_in6));
}

/* The attributes for the requests of an endpoint that listens. */
static int keep(struct id *i, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	if (pd)
		i->id.pd = pd;
	if (!attr)
		return 0;
	i->init = calloc(1, sizeof(*i->init));
	if (!i->init)
		return ENOMEM;
	memcpy(i->init, attr, sizeof(*attr));
	i->init->comp_mask = 0; /* where *attr has padding */
	i->init->qp_type = i->id.qp_type;
	return 0;
}

static int find_route(struct id *i, const struct rdma_addrinfo *res)
{
	if (!res->ai_route_len)
		return rdma_resolve_route(&i->id, MS) ? errno : 0;
	if (rdma_set_option(&i->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
			    res->ai_route_len))
		return errno;
	return id_complete(i) ? errno : 0;
}

static int active(struct id *i, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		  struct ibv_qp_init_attr *attr)
{
	int err = res->ai_connect_len ? given(res->ai_connect, "rdma_create_ep", "ai_connect") : 0;
	struct sockaddr *src = res->ai_src_len ? res->ai_src_addr : NULL;

	err = err ? err : check_len(res->ai_dst_addr, res->ai_dst_len, "dst");
	if (!err && src)
		err = check_len(src, res->ai_src_len, "src");
	if (err)
		return err;
	if (rdma_resolve_addr(&i->id, src, res->ai_dst_addr, MS))
		return errno;
	err = find_route(i, res);
	if (err)
		return err;
	if (attr) {
		attr->qp_type = i->id.qp_type;
		if (rdma_create_qp(&i->id, pd, attr))
			return errno;
	}
	if (!res->ai_connect_len)
		return 0;
	i->connect_data = malloc(res->ai_connect_len);
	if (!i->connect_data)
		return ENOMEM;
	memcpy(i->connect_data, res->ai_connect, res->ai_connect_len);
	i->connect_len = res->ai_connect_len;
	return 0;
}

static int passive(struct id *i, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		   const struct ibv_qp_init_attr *attr)
{
	int err = check_len(res->ai_src_addr, res->ai_src_len, "src");

	if (err)
		return err;
	if (rdma_bind_addr(&i->id, res->ai_src_addr))
		return errno;
	return keep(i, pd, attr);
}

EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *qp_init_attr)
{
	struct rdma_cm_id *made;
	enum ibv_qp_type usual;
	int err;

	if (!id || !res)
		return minus1_errno(EINVAL);
	err = id_type_of((enum rdma_port_space)res->ai_port_space, &usual);
	err = err ? err
		  : id_make(NULL, &made, NULL, (enum rdma_port_space)res->ai_port_space,
			    (enum ibv_qp_type)res->ai_qp_type);
	if (err)
		return minus1_errno(err);
	err = res->ai_flags & RAI_PASSIVE ? passive(to_id(made), res, pd, qp_init_attr)
					  : active(to_id(made), res, pd, qp_init_attr);
	if (err) {
		rdma_destroy_ep(made);
		return minus1_errno(err);
	}
	*id = made;
	return 0;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (!id)
		return;
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* The queue pair of a request, as the listening endpoint's attributes say. */
static int make_qp(struct id *listener, struct id *i)
{
	struct ibv_qp_init_attr_ex attr;

	if (!listener->init)
		return 0;
	attr = *listener->init;
	attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
	attr.pd = listener->id.pd ? listener->id.pd : i->id.pd;
	return qp_make(i, &attr);
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct id *l = to_id(listen);
	struct rdma_cm_event *e;
	int err = given(id, "rdma_get_request", "id");

	if (err)
		return minus1_errno(err);
	if (!l->sync)
		return minus1_errno(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &e))
		return -1;
	err = e->status < 0 ? -e->status : e->status;
	if (!err && e->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		err = EINVAL;
	err = err ? err : make_qp(l, to_id(e->id));
	if (err) {
		listen->event = e;
		return minus1_errno(err);
	}
	*id = e->id;
	(*id)->event = e;
	return 0;
}
