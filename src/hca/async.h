// SPDX-License-Identifier: MIT
/* A context's asynchronous events: raising, taking and dropping them. async_wait() sleeps in the
 * context's async_fd. */
#pragma once
#include "hca/device.h"

/* @element: struct ibv_cq *, ibv_qp *, ibv_srq *, ibv_wq *; NULL for port and device events (the
 * port is 1). */
void async_push(struct context *ctx, enum ibv_event_type type, void *element);
/* The same, unless such an event of @element waits already: for what a peer may cause at will. */
void async_push_once(struct context *ctx, enum ibv_event_type type, void *element);
int async_pop(struct context *ctx, struct ibv_async_event *out); /* EAGAIN: none */
/* The same, but waits by read(2) on async_fd, with its EINTR and O_NONBLOCK. */
int async_wait(struct context *ctx, struct ibv_async_event *out);
/* Drops queued events of an object that is being destroyed; returns how many. */
unsigned int async_drop(struct context *ctx, const void *element);
