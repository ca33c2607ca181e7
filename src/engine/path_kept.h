// SPDX-License-Identifier: MIT
/* The destinations of a UD QP's last datagrams. Finding a path through the network takes system
 * calls, and finding one to a process of this host takes as long as sending, so each is kept for a
 * tenth of a second, and so is the result that there is none. Under the QP's turn. */
#pragma once
#include "engine/node_state.h"

int path_kept_resolve(struct tqp *q, const struct av *av, uint32_t dqpn,
		      struct dest **out); /* tqp_env.resolve */
/* Where datagrams to a group go in the network; one reference. An errno: nowhere. */
int path_kept_cast(struct eqp *e, const struct av *av, struct dest **out);
void path_kept_drop(struct eqp *e); /* the QP ends */
