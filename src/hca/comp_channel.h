// SPDX-License-Identifier: MIT
/* Completion channels: the queue of completion events that a program reads, and its descriptor
 * (event_fd.h). comp_channel_wait() sleeps; the engine's wait.h makes progress meanwhile.
 * Locking: a small mutex, a leaf, guards the queue and the descriptor's count. A thread that pushes
 * may have a turn, but no other leaf. */
#pragma once
#include "hca/device.h"
#include "util/list.h"
#include "util/ref.h"

/* A CQ's place in its channel's queue: nothing is allocated when an event is raised. */
struct comp_event {
	struct list node; /* on the queue while pending is not 0 */
	uint32_t pending; /* events not yet taken */
	struct ibv_cq *cq;
};

struct comp_channel {
	struct ibv_comp_channel ib; /* first; ib.fd is the eventfd, ib.refcnt counts CQs */
	struct context *ctx;
	uint32_t epoch;
	struct comp_queue *queue;
	struct ref threads; /* inside of waits, and one until comp_channel_destroy() */
	bool gone; /* destroyed; under the queue's mutex */
	int also_fd; /* a second eventfd that a push counts up (comp_channel_also()); -1: none */
};

int comp_channel_create(struct context *ctx, struct comp_channel **out);
/* EBUSY while a CQ uses it. Threads that wait for its events are woken, and the last of them frees
 * it and closes its descriptor. */
int comp_channel_destroy(struct comp_channel *ch);
/* Around a wait: the channel and its descriptor stay until comp_channel_leave(). */
void comp_channel_enter(struct comp_channel *ch);
void comp_channel_leave(struct comp_channel *ch);
void comp_channel_get(struct comp_channel *ch); /* for CQs: ib.refcnt */
void comp_channel_put(struct comp_channel *ch);
/* From now on each push also counts up the eventfd @fd, after its event is queued; -1: none. For a
 * thread that waits for this channel's events but sleeps on a descriptor of its own: it calls this,
 * fences, looks for events once more, and sleeps. */
void comp_channel_also(struct comp_channel *ch, int fd);
void comp_channel_push(struct comp_channel *ch,
		       struct comp_event *ev); /* list_init(&ev->node) before */
/* Pushes by this thread are delayed until comp_release(), so that the program is not woken before
 * the answer to the message has left. Not nested; the CQs stay alive in between. */
void comp_delay(void);
void comp_release(void);
/* Takes an event; CQs with several take turns. EAGAIN: none. EBADF: it was destroyed. */
int comp_channel_pop(struct comp_channel *ch, struct ibv_cq **cq);
/* The same, but waits by read(2) on the channel's descriptor, with its EINTR and O_NONBLOCK. */
int comp_channel_wait(struct comp_channel *ch, struct ibv_cq **cq);
/* For cq_destroy(): drops the CQ's queued events; returns how many. */
unsigned int comp_channel_drop(struct comp_channel *ch, struct ibv_cq *cq);
