// SPDX-License-Identifier: MIT
/* Connection management as a kernel would offer it: ids on channels, calls that begin something,
 * and events that tell how it went. librdmacm (src/rdmacm) has the queue pairs and does the work
 * that an event asks for, in the thread that fetches it; here nothing touches a QP. It reaches this
 * table by softhca_cm().
 *
 * Every function returns 0 or a positive errno with a reason. Threads: any. In a forked child the
 * parent's ids and channels answer EIO. */
#pragma once
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include "hca/device.h"

struct cm_channel;
struct cm_id;

enum { CM_DATA_MAX = 224 };

/* What goes into a message, and what an event shows of one. */
struct cm_param {
	uint8_t data[CM_DATA_MAX]; /* private data */
	uint8_t data_len; /* bytes */
	uint8_t responder_resources, initiator_depth; /* in events: as seen from here */
	uint8_t flow_control, retry_count, rnr_retry_count, srq;
	uint32_t qpn, qkey;
	uint32_t ece_vendor, ece_options;
	struct ibv_ah_attr ah; /* UD: the way to the peer, or to the group */
};

struct cm_news {
	int event; /* enum rdma_cm_event_type */
	int status;
	struct cm_id *id; /* CONNECT_REQUEST: a new one */
	void *owner; /* as id_create() or set_owner() said; NULL of a new id */
	void *listener; /* owner of the listening id; NULL: no CONNECT_REQUEST */
	void *join; /* MULTICAST_*: the join's context */
	uint64_t arg; /* of write_event() */
	struct cm_param param;
};

/* What is known of an id. */
struct cm_view {
	struct sockaddr_storage src, dst;
	bool bound; /* to a device: what follows is valid */
	char device[IBV_SYSFS_NAME_MAX];
	union ibv_gid sgid, dgid;
	uint8_t sgid_index, hop_limit, tclass, mtu; /* mtu: enum ibv_mtu */
	uint8_t packet_life, rate, sl;
	uint32_t flow_label;
	uint16_t mlid;
	bool routed; /* resolve_route() has succeeded */
	uint32_t remote_ece_vendor, remote_ece_options;
};

struct cm_calls {
	int (*channel_create)(struct cm_channel **out, int *fd);
	void (*channel_destroy)(struct cm_channel *ch);
	/* Blocks as read(2) does on the channel's descriptor: EAGAIN, EINTR. */
	int (*next_event)(struct cm_channel *ch, struct cm_news *out);

	int (*id_create)(struct cm_channel *ch, void *owner, uint32_t ps, int qp_type,
			 struct cm_id **out);
	/* The peer is told, events not fetched vanish. *@fetched: how many of the id were. Threads
	 * that work on one of those may name the id until id_release(), and hear EINVAL. */
	int (*id_destroy)(struct cm_id *id, uint32_t *fetched);
	void (*id_release)(struct cm_id *id); /* no thread of the program names @id any more */
	int (*set_owner)(struct cm_id *id, void *owner, struct cm_channel *ch);
	/* Events that are not fetched follow the id. *@fetched as above. */
	int (*migrate)(struct cm_id *id, struct cm_channel *to, uint32_t *fetched);
	int (*view)(struct cm_id *id, struct cm_view *out);

	int (*bind)(struct cm_id *id, const struct sockaddr *addr);
	int (*listen)(struct cm_id *id, int backlog);
	int (*resolve_addr)(struct cm_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int ms);
	int (*resolve_route)(struct cm_id *id, int ms);
	int (*connect)(struct cm_id *id, const struct cm_param *p);
	int (*accept)(struct cm_id *id, const struct cm_param *p);
	int (*reject)(struct cm_id *id, const void *data, size_t len, bool ece);
	int (*establish)(struct cm_id *id);
	/* *@follows: an event will tell of its end, or waits to be fetched. */
	int (*disconnect)(struct cm_id *id, bool *follows);
	int (*notify)(struct cm_id *id, enum ibv_event_type event);
	/* For the move to attr->qp_state. */
	int (*qp_attr)(struct cm_id *id, struct ibv_qp_attr *attr, int *mask);
	int (*set_option)(struct cm_id *id, int level, int name, const void *val, size_t len);

	/* Raises MULTICAST_JOIN. @send_only: nothing is received. */
	int (*join)(struct cm_id *id, const struct sockaddr *group, bool send_only, uint32_t qkey,
		    void *context);
	/* An event of it that is not fetched vanishes. *@context: that of the join; *@fetched: the
	 * program has fetched it. */
	int (*leave)(struct cm_id *id, const struct sockaddr *group, void **context, bool *fetched);
	/* An event of the program's own into the id's channel; news.arg will be @arg. */
	int (*write_event)(struct cm_id *id, int event, int status, uint64_t arg);
};

const struct cm_calls *cm_table(void);
