// SPDX-License-Identifier: MIT
/* Inbound segments: from host_drain() to the QP they name. A thread that drains keeps the turn of
 * the QP it delivered to last, so that a burst costs one turn (inbound_release() gives it back). */
#pragma once
#include "engine/node_state.h"

void inbound_deliver(void *arg, const struct seg *s); /* host_config.deliver */
/* udp_config.deliver: a packet from the network, for us or for another process of this host. */
void inbound_packet(void *arg, const struct seg *s);
void inbound_peer_dead(void *arg, unsigned int slot); /* host_config.peer_dead */
void inbound_to_qp(struct node *n, uint32_t qpn, const struct seg *s); /* in a drain */
void inbound_release(void);
void inbound_drained(void *arg); /* host_config.drained */
/* Drains once: delivers, runs timers, ready QPs, and when nothing came in, due ACKs. Inside a
 * quiesce section. Returns the segments delivered. */
unsigned int inbound_progress(struct node *n);
unsigned int inbound_network(struct node *n); /* what the sockets hold, all of them */
void inbound_no_responder_later(struct tqp *q, const struct seg *s); /* tqp_env */
void inbound_ack_later(struct tqp *q); /* tqp_env.ack_later */
bool inbound_ack_hold(struct tqp *q); /* tqp_env.ack_hold */
void inbound_list_held(struct eqp *e); /* under its turn: its ACK goes at e->hold_end */
uint64_t inbound_hold_end(const struct node *n); /* ns: an ACK must go then; UINT64_MAX: none */
void inbound_end(struct node *n); /* the process ends: ACKs that wait leave */
void inbound_forget(struct eqp *e); /* takes a QP that ends off every list */
