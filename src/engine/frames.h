// SPDX-License-Identifier: MIT
/* Ethernet frames between RAW_PACKET queue pairs, the processes of this host and the netdev. The
 * port is a hub: a frame that is sent goes to every process of the host that has flow rules on
 * the same interface, this one too, and to the network, unless it is addressed to the interface
 * itself; each process steers it by its own rules. The network needs CAP_NET_RAW and an
 * interface other than lo; without, frames stay on this host, and a reason says so. */
#pragma once
#include "engine/node_state.h"

int frames_start(struct device *d); /* its flow table; ENOMEM */
/* A RAW_PACKET QP is made: opens the way to the network, or records why there is none. */
void frames_begin(struct device *d);
/* The interface has changed, or is another one now: what was bound to the one before is no more. */
void frames_follow(struct device *d);
int frames_send(struct tqp *q, const struct seg *s); /* as tqp_env.cast, of FRAME_OP */
void frames_deliver(struct node *n, const struct seg *s); /* FRAME_OP; in a drain */
/* The engine's epoll found @fd readable; false: it is not one of ours. */
bool frames_read(struct node *n, int fd);
