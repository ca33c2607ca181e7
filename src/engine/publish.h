// SPDX-License-Identifier: MIT
/* What peers see of a QP (peers/host.h), for direct access (docs/design/direct-access.md). Under
 * the QP's turn; host_revoke_qp() then waits for accesses that are under way. */
#pragma once
#include "engine/node_state.h"

void publish(struct eqp *e); /* as the QP is now */
void publish_end(struct eqp *e); /* for good: the QP is being destroyed */
/* The first segment since the last modify is here. The entry may name no process until now: the QP
 * was connected before the contact to the peer was. */
void publish_met(struct eqp *e);
/* tqp_env.moved: the protocol has moved the QP. Direct access ends, without a wait. */
void publish_moved(struct tqp *q);
