// SPDX-License-Identifier: MIT
/* Handing events to the program and taking its acknowledgements. Destroying an object waits until
 * every event that named it and was handed out has been acknowledged (ibv_get_async_event(3),
 * ibv_ack_cq_events(3)); events still queued are dropped. The counters of the acknowledged ones
 * are the public ABI's, under the object's public mutex and condition. */
#pragma once
#include "driver/dcq.h"
#include "driver/dqp.h"
#include "driver/dsrq.h"
#include "driver/dwq.h"

/* As ibv_get_cq_event(): blocks (engine/wait.h); 0 or a positive errno. */
int events_get_cq(struct comp_channel *ch, struct ibv_cq **cq);
void events_ack_cq(struct ibv_cq *cq, unsigned int n);
int events_get_async(struct context *ctx, struct ibv_async_event *ev);
void events_ack_async(struct ibv_async_event *ev);

/* Before an object is freed: waits for outstanding acknowledgements; events still queued are
 * dropped (of a CQ by cq_destroy()). */
void events_settle_cq(struct dcq *cq);
void events_settle_qp(struct dqp *qp);
void events_settle_srq(struct dsrq *srq);
void events_settle_wq(struct dwq *wq);
