// SPDX-License-Identifier: MIT
/* Paths: which destination a QP's (or a datagram's) segments go to. */
#pragma once
#include "engine/node_state.h"

/* The destination of number @qpn at @gid. EHOSTUNREACH, with a reason: not on this host, and no
 * link to the network. One reference. */
int path_find(struct eqp *e, const union ibv_gid *gid, uint32_t qpn, struct dest **out);
/* host_config.make_grh: the header that the receiver of a UD segment sees. */
void path_make_grh(void *arg, const struct seg *s, uint8_t grh[40], uint8_t *l3);
int path_resolve(struct tqp *q, const struct av *av, uint32_t dqpn,
		 struct dest **out); /* tqp_env */
