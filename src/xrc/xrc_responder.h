// SPDX-License-Identifier: MIT
/* Segments for a target QP, and the callbacks of its responder while it works on one. Under the
 * QP's local turn. */
#pragma once
#include "engine/node_state.h"

/* eqp_ops.input. A segment whose shared turn cannot be had in time is dropped, as on a network, and
 * its sender is told. */
void xrc_responder_input(struct eqp *e, const struct seg *s, uint64_t now);
bool xrc_responder_serve(struct tqp *q, uint32_t srqn); /* tqp_env.serve */
void xrc_responder_moved(struct tqp *q); /* tqp_env.moved */
void xrc_responder_event(struct tqp *q, enum ibv_event_type type); /* tqp_env.event */
