// SPDX-License-Identifier: MIT
/* A DC target's end of one connection: a QP without a send queue that follows RC's rules. It is in
 * RESET while no initiator is connected, and goes back there when one leaves or another takes its
 * place. Its number is known to its initiator alone.
 * Locking: entry is under the target's lock; the rest is the turn's. */
#pragma once
#include "dc/dc_target.h"

struct dc_responder {
	struct eqp e; /* first */
	struct dc_entry entry;
	struct dc_target *target;
	struct dc_from met; /* the initiator that has connected last; zeros: none has */
	uint32_t session; /* of that connection */
};

/* For @from, into the target's table. The target's lock is held. */
int dc_responder_create(struct dc_target *t, const struct dc_from *from, struct dc_responder **out);
/* Is it idle, so that another initiator may take it over? Any thread; a hint. */
bool dc_responder_idle(const struct dc_responder *r, uint64_t now);
/* Ends its connection; the initiator is not told. Outside any turn. */
void dc_responder_reset(struct dc_responder *r);
void dc_responder_destroy(struct dc_responder *r); /* outside any turn and quiesce section */

/* The initiator that sent @s; false: it is not known. */
bool dc_responder_from(const struct seg *s, struct dc_from *out);
/* The way back to the sender of @s, for segments of @e. One reference. */
int dc_responder_way(struct eqp *e, const struct ibv_qp_attr *attr, const struct seg *s,
		     struct dest **out);
/* No connection comes of @s, which @e drops. Its sender on this host runs no timer: it is told, and
 * asks again as long as it has tries. */
void dc_responder_none(struct eqp *e, const struct seg *s, struct grounds why);
/* Answers the request for a connection @s by @syndrome, from number @qpn. */
void dc_responder_answer(struct eqp *e, struct dest *to, const struct seg *s, uint32_t qpn,
			 uint8_t syndrome);
