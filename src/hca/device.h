// SPDX-License-Identifier: MIT
/* The device (struct hca) and an open instance of it (struct context). An hca is made by the
 * engine, one per name and process, and lives until the process ends. A context belongs to the
 * program that opened it; its objects have a reference.
 * Locking: an hca's fields are frozen at creation, except the list of contexts, which contexts_lock
 * guards, and the object counts, which are atomics. The functions of struct hca_ports lock by
 * themselves. */
#pragma once
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "obs/counters.h"
#include "util/list.h"
#include "util/spin.h"

struct key_table;
struct mcast_table;
struct flow_table;
struct async_queue;
struct cq_timers;

/* The driver's functions that count the events which programs take (hca->taken). Called under the
 * queue's lock when an event leaves the queue and cannot be dropped any more; they take no lock. */
struct event_takers {
	void (*comp)(struct ibv_cq *cq);
	void (*async)(const struct ibv_async_event *ev);
};

/* What the netdev says of the port, by functions of the engine, so that hca/ need not include
 * net/. */
struct hca_ports {
	/* EINVAL: @index outside the table. An empty entry has a zero GID and *v2 false. */
	int (*gid)(void *arg, unsigned int index, union ibv_gid *gid, bool *v2, uint32_t *ifindex);
	bool (*active)(void *arg);
	enum ibv_mtu (*active_mtu)(void *arg);
	void (*mac)(void *arg, uint8_t mac[6]);
};

struct hca {
	char name[IBV_SYSFS_NAME_MAX];
	uint32_t epoch; /* fork_epoch() of its process */
	const struct hca_ports *ports;
	void *ports_arg;
	struct key_table *keys; /* one for all devices of the process */
	struct mcast_table *mcast; /* one for all devices of the process */
	struct flow_table *flows; /* of this device */
	struct counters *counters;
	const struct cq_timers *cq_timers; /* NULL: moderated events come by their count alone */
	const struct event_takers *taken; /* NULL: events are not counted */
	uint64_t node_guid; /* big-endian */
	/* The device of the same name in a forked child, where this one is inherited. NULL:
	 * inherited contexts refuse new objects. */
	int (*renew)(const struct hca *old, struct hca **out);
	pthread_mutex_t contexts_lock; /* guards the list; all zero is unlocked */
	struct context *contexts; /* the open ones */
	struct {
		uint32_t pd, mr, cq, srq, qp, ah;
		uint32_t mw, dm, dm_pages;
		uint32_t wq, rwq_table;
	} count; /* atomics, against the limits */
};

/* PDs and device memory of a context and of all contexts imported from it, which a program imports
 * by their handles. */
struct context_objects {
	pthread_mutex_t lock; /* guards the lists; its thread takes no other lock */
	struct list pds, dms;
};

/* An open device; ibv_open_device() returns its last member. */
struct context {
	struct hca *hca;
	uint32_t epoch;
	struct context *root; /* context that it was imported from, with a reference; or itself */
	struct context_objects objects; /* only the root's is used */
	uint64_t dev, ino; /* file of cmd_fd, by which an import finds its root */
	struct async_queue *async;
	struct context *next; /* in hca->contexts */
	struct context_memory {
		void *(*alloc)(size_t size, void *data); /* NULL: the library's own memory */
		void (*free)(void *p, void *data);
		void *data;
	} memory; /* of rings and doorbell records that are made from now on */
	uint32_t refs; /* atomic: the opener and the objects */
	uint32_t moving; /* epoch of the process that is moving it (context_use()) */
	bool closed;
	struct verbs_context ib; /* last: ibv_context is its last member and may be extended */
};

static inline struct context *to_context(struct ibv_context *ib)
{
	struct verbs_context *v =
		(struct verbs_context *)((char *)ib - offsetof(struct verbs_context, context));

	return (struct context *)((char *)v - offsetof(struct context, ib));
}

int context_create(struct hca *hca, struct ibv_device *dev, struct context **out);
/* A second context on the file of @orig's cmd_fd. It owns @fd, which ibv_close_device() closes. */
int context_import(struct context *orig, int fd, struct context **out);
/* The open context of @hca whose cmd_fd is the file @dev, @ino, with a reference; or NULL. */
struct context *context_find(struct hca *hca, uint64_t dev, uint64_t ino);
/* Closes async_fd and cmd_fd. A program should have destroyed its objects before: those that are
 * left stay valid memory, but any use of them is refused. */
void context_destroy(struct context *ctx);
void context_get(struct context *ctx); /* for objects */
void context_put(struct context *ctx);
/* Called before an object is made or changed on @ctx. EIO with a reason: the context was closed. A
 * context that a forked child inherited is moved to the child's own device first, with an async
 * queue of its own under the same descriptor number. @call names the caller in the reason. */
int context_use(struct context *ctx, const char *call);
/* Raises a port event (IBV_EVENT_GID_CHANGE, _PORT_ACTIVE, …; port_num 1) on every open context. */
void device_event(struct hca *hca, enum ibv_event_type type);

void device_query(const struct hca *hca, struct ibv_device_attr *out);
/* @size: bytes of *out that the caller has (size contract of ibv_query_device_ex). */
int device_query_ex(const struct hca *hca, const struct ibv_query_device_ex_input *in,
		    struct ibv_device_attr_ex *out, size_t size);
int device_query_port(const struct hca *hca, uint8_t port, struct ibv_port_attr *out, size_t size);
/* Units of 100 Mb/s. */
int device_port_speed(const struct hca *hca, uint32_t port, uint64_t *out);
/* Takes one of @count below @limit; ENOMEM with a reason that names @what. */
int device_take(uint32_t *count, uint32_t limit, const char *what);
void device_give(uint32_t *count);
