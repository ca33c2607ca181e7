// SPDX-License-Identifier: MIT
/* What stands behind the program's struct rdma_cm_id and struct rdma_cm_event. */
#pragma once
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include "cm/cm.h"
#include "verbs/export.h"

/* A device as librdmacm has it: opened once, for the life of the process. */
struct opened {
	struct ibv_context *verbs;
	char name[IBV_SYSFS_NAME_MAX];
	uint8_t max_initiator, max_responder; /* depths */
	struct ibv_pd *pd; /* the default one; made on demand */
	struct ibv_xrcd *xrcd;
};

struct channel {
	struct rdma_event_channel ch; /* first */
	struct cm_channel *cm;
	const struct id *own; /* the synchronous id that it is of; NULL: the program has made it */
};

struct group { /* that an id has joined */
	struct group *next;
	struct sockaddr_storage addr;
	void *context;
	bool send_only, attached;
	bool acked; /* its event */
	union ibv_gid gid;
	uint16_t lid;
};

struct id {
	struct rdma_cm_id id; /* first */
	struct cm_id *cm;
	struct opened *dev; /* NULL: bound to none */
	bool sync; /* its channel is its own */
	bool failed; /* CONNECT_ERROR was raised: what follows is not shown */
	pthread_mutex_t lock; /* guards acked, those of groups, groups, asks, answer */
	pthread_cond_t all_acked;
	uint32_t acked; /* events of this id that the program has acked, or never saw */
	uint8_t initiator, responder; /* depths of the request */
	struct ibv_qp_init_attr_ex *init; /* of an endpoint that listens: for its requests */
	struct ibv_ece local_ece, remote_ece;
	struct group *groups;
	void *connect_data; /* in front of the program's private data (rdma_create_ep) */
	size_t connect_len;
	bool own_recv_cq, own_send_cq, own_srq_cq;
	bool asks; /* since rdma_resolve_addrinfo(), until its answer is taken or it has none */
	struct rdma_addrinfo *answer; /* for rdma_query_addrinfo() */
};

struct event {
	struct rdma_cm_event event; /* first */
	struct id *counted; /* whose event it is; of a CONNECT_REQUEST: the listener */
	struct id *made; /* CONNECT_REQUEST: the new id */
	struct group *group; /* MULTICAST_*: lives until the event is acked */
	uint8_t data[CM_DATA_MAX];
};

static inline struct id *to_id(struct rdma_cm_id *id)
{
	return (struct id *)id;
}

/* device.c */
int opened_find(const char *name, struct opened **out); /* ENODEV */
int opened_pd(struct opened *d, struct ibv_pd **out);
int opened_xrcd(struct opened *d, struct ibv_xrcd **out);
int opened_any(void); /* ENODEV: there is none */

/* channel.c */
struct rdma_event_channel *channel_for(const struct id *i); /* its own: it is synchronous */

/* id.c */
/* EINVAL, with a reason: @p is NULL. */
int given(const void *p, const char *call, const char *what);
struct id *id_alloc(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
		    enum ibv_qp_type type);
void id_free(struct id *i); /* it has no answer */
/* The usual type of queue pairs of @ps; EINVAL: there is no such port space. */
int id_type_of(enum rdma_port_space ps, enum ibv_qp_type *out);
int id_make(struct rdma_event_channel *ch, struct rdma_cm_id **out, void *context,
	    enum rdma_port_space ps, enum ibv_qp_type type);
int id_look(struct id *i); /* addresses and device, as they are now */
/* The program has an event no more, and so none of @g: NULL, it was of no group. */
void id_ack(struct id *i, struct group *g);
int id_own_channel(struct id *i); /* a channel of its own, unless it has one */

/* qp.c */
int qp_to_rtr(struct id *i, uint8_t responder);
int qp_to_rts(struct id *i, uint8_t initiator);
void qp_to_err(struct id *i);
int qp_make(struct id *i, struct ibv_qp_init_attr_ex *attr);

/* ece.c */
int ece_take(struct id *i, bool passive); /* before the QP leaves INIT */

/* sync.c: calls that an event ends. The thread that fetches it may destroy the id at once, while
 * the call still runs in another: so the call looks at the id before it, not behind it. */
int id_complete(struct id *i); /* waits for the event of a synchronous id */
/* minus1_errno(), then id_complete() of an id that was synchronous before the call. */
int id_result(struct id *i, bool sync, int err);

/* mcast.c */
void groups_leave(struct id *i); /* detaches the QP, and frees them */
