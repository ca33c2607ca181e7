// SPDX-License-Identifier: MIT
/* Where the links' segments come in: to QPs, to the flow rules (frames.h), to groups (groups.h), or
 * on to another process of this host. These are the callbacks of host_config, whose arg is the
 * node, and those of networks, whose arg is the node_link. Inside a quiesce section, except
 * inbound_peer_dead(). */
#pragma once
#include "engine/node_state.h"

void inbound_deliver(void *arg, const struct seg *s); /* host_config.deliver */
bool inbound_lacks_receive(void *arg, const struct seg *s); /* host_config.lacks_receive */
void inbound_deliver_traced(void *arg, const struct seg *s); /* the same while tracing */
void inbound_peer_dead(void *arg, unsigned int slot); /* host_config.peer_dead */
void inbound_peer_up(void *arg); /* host_config.peer_up */
void inbound_drained(void *arg); /* host_config.drained */
/* A packet from a network, for us or for another process of this host. */
void inbound_packet(void *arg, const struct seg *s);
void inbound_packet_traced(void *arg, const struct seg *s);
