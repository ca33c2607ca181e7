// SPDX-License-Identifier: MIT
/* Automatic path migration of RC and UC (IB specification 17.2.8). MIGRATED: packets say MigReq.
 * REARM (by modify, once an alternate path is loaded): packets do not say MigReq; the first packet
 * of the peer without MigReq makes the state ARMED. ARMED: the QP migrates by modify, by a packet
 * of the peer with MigReq, or when the primary path's retries are exhausted. A QP that migrates
 * swaps primary and alternate path, and raises an event; its state is MIGRATED then. The QP does
 * not migrate to a path that no longer exists: IBV_EVENT_PATH_MIG_ERR. Called under the turn, like
 * all of the transport. */
#pragma once
#include "transport/tqp.h"

/* To be called after qp_modify() has set path_mig_state; @was: the state before. */
void apm_modified(struct tqp *q, enum ibv_mig_state was, uint64_t now);
/* A segment of the peer, in REARM or ARMED. */
void apm_input(struct tqp *q, const struct seg *s, uint64_t now);
/* The primary path's retries are exhausted. True: there is another path now. */
bool apm_exhausted(struct tqp *q, uint64_t now);
