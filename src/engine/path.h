// SPDX-License-Identifier: MIT
/* Paths: which destination a QP's (or a datagram's) segments go to. */
#pragma once
#include "engine/node_state.h"

/* What a connected QP's or a datagram's destination is found by. */
struct path_ask {
	const struct av *av;
	uint32_t dqpn;
	uint32_t mtu; /* bytes */
};

/* The destination: on this host where the route says so, else through the network. With a reason:
 * EHOSTUNREACH, no way leads there; EINVAL, the path does not fit the interface (MTU, family); what
 * udp_dest() says. One reference. */
int path_find(struct eqp *e, const struct path_ask *ask, struct dest **out);
/* A UD QP is about to receive: the network's ports of its device are opened. What cannot be had is
 * said in the log, traffic on this host goes on, and it is tried again (port_wait.h). */
void path_listen(struct eqp *e);
void path_unlisten(struct eqp *e); /* it ends */
/* The device's interface or its addresses have changed: ports come and go with them. */
void path_follow(struct device *d);
/* The destination of this host's process that number @qpn tells; no address is looked at. */
int path_to_number(struct eqp *e, uint32_t qpn, struct dest **out);
/* tqp_env.route */
bool path_route(struct tqp *q, uint32_t srqn, bool idle);
/* host_config.make_grh: the header that the receiver of a UD segment sees. */
void path_make_grh(void *arg, const struct seg *s, uint8_t grh[40], uint8_t *l3);
/* Is there an alternate path, and are both its ends still addresses of this host? (tqp_env) */
bool path_usable(struct tqp *q);
int path_resolve(struct tqp *q, const struct av *av, uint32_t dqpn,
		 struct dest **out); /* tqp_env */
/* Where datagrams to a group go in the network; a reference. An errno: nowhere. Under the turn. */
int path_cast(struct eqp *e, const struct av *av, struct dest **out);
void path_forget(struct eqp *e); /* gives back what path_resolve() and path_cast() keep */
int path_network(struct node *n); /* node->udp is there from now on, or an errno */
