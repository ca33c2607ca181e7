// SPDX-License-Identifier: MIT
/* The queue of a context's asynchronous events and its descriptor (event_fd.h). async.h
 * raises and takes events; the context makes and ends the queue.
 * Locking: a small mutex, a leaf, guards the list, the descriptor and its count. A thread that
 * pushes may have a turn, but no other leaf. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>

struct async_queue;

int async_queue_create(struct async_queue **out);
int async_queue_fd(const struct async_queue *q);
/* Gives the queue's descriptor the number @fd, whose file is closed, and the file flags @flags. */
int async_queue_move(struct async_queue *q, int fd, int flags);
void async_queue_close(struct async_queue *q); /* closes the descriptor; later events vanish */
void async_queue_destroy(struct async_queue *q); /* NULL is fine */
/* @element: struct ibv_cq *, ibv_qp *, ibv_srq *, ibv_wq *; NULL for port and device events (the
 * port is 1). @once: not while another one like it waits. */
void async_queue_push(struct async_queue *q, enum ibv_event_type type, void *element, bool once);
/* Takes the oldest event, and calls @taken (NULL is fine) under the lock. False: none. */
bool async_queue_pop(struct async_queue *q, void (*taken)(const struct ibv_async_event *ev),
		     struct ibv_async_event *out);
unsigned int async_queue_drop(struct async_queue *q, const void *element); /* returns how many */
