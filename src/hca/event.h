// SPDX-License-Identifier: MIT
/* Events: completion channels and a context's asynchronous events. Both descriptors are real,
 * pollable, non-blocking on request (eventfd, semaphore mode: one count an event). Waiting is not
 * here: the engine's wait.h blocks (it must make progress meanwhile).
 * Locking: each queue has a small mutex, a leaf, under which the list and the descriptor's count
 * change together (so it is a mutex that sleeps, not a spin); producers may hold a turn, but no
 * other leaf. */
#pragma once
#include "hca/device.h"
#include "util/list.h"

/* A CQ's place in its channel's queue: nothing is allocated when an event is raised. */
struct comp_event {
	struct list node; /* on the queue while pending is not 0 */
	uint32_t pending; /* events not yet taken */
	struct ibv_cq *cq;
};

/* Who counts the events that programs take (hca->taken): called at the moment from which an event
 * cannot be dropped any more, under the queue's lock; takes none itself. */
struct event_takers {
	void (*comp)(struct ibv_cq *cq);
	void (*async)(const struct ibv_async_event *ev);
};

struct comp_channel {
	struct ibv_comp_channel ib; /* first; ib.fd is the eventfd, ib.refcnt counts CQs */
	struct context *ctx;
	uint32_t epoch;
	struct comp_queue *queue;
	/* -1, or the doorbell in which a thread blocked for this channel sleeps: a push queues the
	 * event, fences, reads this, and when it is not -1 writes 1 to it. */
	int lead_fd;
};

int comp_channel_create(struct context *ctx, struct comp_channel **out);
int comp_channel_destroy(struct comp_channel *ch); /* EBUSY while a CQ uses it */
void comp_channel_get(struct comp_channel *ch); /* for CQs: ib.refcnt */
void comp_channel_put(struct comp_channel *ch);
void comp_channel_push(struct comp_channel *ch,
		       struct comp_event *ev); /* list_init(&ev->node) before */
/* What this thread pushes waits until comp_release(): nobody is woken by work whose answer has not
 * left. Not nested; the CQs stay alive in between. */
void comp_hold(void);
void comp_release(void);
/* Takes an event, the CQs in turn. EAGAIN: none. */
int comp_channel_pop(struct comp_channel *ch, struct ibv_cq **cq);
/* The same, but waits by read(2) on the channel's descriptor, with its EINTR and O_NONBLOCK. */
int comp_channel_wait(struct comp_channel *ch, struct ibv_cq **cq);
/* Drops the queued events of a CQ that is being destroyed; returns how many (cq_destroy() does
 * it). */
unsigned int comp_channel_drop(struct comp_channel *ch, struct ibv_cq *cq);

int async_queue_create(struct context *ctx,
		       struct async_queue **out); /* sets ctx->ib.context.async_fd */
/* Gives the queue the number @fd (closing what it was) and the open file flags @flags. */
int async_queue_move(struct async_queue *q, int fd, int flags);
void async_queue_close(struct async_queue *q); /* its descriptor; later events vanish */
void async_queue_destroy(struct async_queue *q); /* NULL is fine */
/* @element: struct ibv_cq *, ibv_qp *, ibv_srq *; NULL for port and device events (the port is
 * 1). */
void async_push(struct context *ctx, enum ibv_event_type type, void *element);
int async_pop(struct context *ctx, struct ibv_async_event *out); /* EAGAIN: none */
int async_wait(struct context *ctx, struct ibv_async_event *out); /* as comp_channel_wait() */
/* Drops queued events of an object that is being destroyed; returns how many. */
unsigned int async_drop(struct context *ctx, const void *element);
