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

extern const struct event_takers events_taken; /* for hca->taken */

void events_ack_cq(struct ibv_cq *cq, unsigned int n);
void events_ack_async(struct ibv_async_event *ev);

/* Before an object is freed: waits for outstanding acknowledgements; events still queued are
 * dropped (of a CQ by cq_destroy()). */
void events_settle_cq(struct dcq *cq);
void events_settle_qp(struct dqp *qp);
void events_settle_srq(struct dsrq *srq);
void events_settle_wq(struct dwq *wq);
