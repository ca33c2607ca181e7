// SPDX-License-Identifier: MIT
/* Paths: the destination that a QP's (or a datagram's) segments go to. */
#pragma once
#include "engine/node_state.h"

struct fault_config;

/* The faults of SOFTHCA_FAULT, with the page by which they change. False: none are set, or what is
 * set cannot be parsed, which the first path of a queue pair refuses. */
bool path_faults(struct fault_config *out);

/* What a connected QP's or a datagram's destination is found by. */
struct path_ask {
	const struct av *av;
	uint32_t dqpn;
	uint32_t mtu; /* bytes */
};

/* The destination: on this host where the route says so, else through the network. With a reason:
 * EHOSTUNREACH, no path leads there; EINVAL, the path does not fit the interface (MTU, family);
 * errors of the network (link/links.h). One reference. */
int path_find(struct eqp *e, const struct path_ask *ask, struct dest **out);
/* The same for datagrams to a group, in the network alone. ENETUNREACH: the device has none. */
int path_find_cast(struct eqp *e, const struct av *av, struct dest **out);
/* The destination that a modify call asks for, or NULL: it asks for none. Before the turn is taken,
 * since it may ask the kernel. */
int path_of_modify(struct eqp *e, const struct ibv_qp_attr *attr, int mask, bool alternate,
		   struct dest **out);

/* Under the turn: the QP's destination is @d from now on, whose reference it takes over. What has
 * waited for room at the old one goes on in a later turn (turn_after()). */
void path_swap(struct eqp *e, struct dest *d);
void path_swap_alternate(struct eqp *e, struct dest *d);
void path_put(struct dest *d); /* NULL is fine */

/* host_config.make_grh: the header that the receiver of a datagram of this host sees. */
void path_make_grh(void *arg, const struct seg *s, uint8_t grh[40], uint8_t *l3);

bool path_again(struct tqp *q); /* tqp_env.again */
/* The destination of number @qpn on this host, for segments to the address @to (NULL: the one that
 * the QP is connected to). One reference. */
int path_to_number(struct eqp *e, const struct av *to, uint32_t qpn, struct dest **out);
bool path_route(struct tqp *q, const struct wqe *w, bool idle,
		uint64_t now); /* tqp_env.route, of XRC_SEND */
/* tqp_env.usable: is there an alternate path, and are both its ends still addresses of this
 * host? */
bool path_usable(struct tqp *q);
