// SPDX-License-Identifier: MIT
/* Automatic path migration of RC and UC (IB specification 17.2.8). MIGRATED: packets say MigReq.
 * REARM, by modify once an alternate path is loaded: packets do not, and a packet of the peer that
 * does not either makes it ARMED. ARMED: by modify, by a packet of the peer that says MigReq, or
 * when the primary path's retries are exhausted, the alternate becomes the primary path and the
 * state MIGRATED, with an event; the old primary stays as the alternate. A path that is no longer
 * there is not migrated to: IBV_EVENT_PATH_MIG_ERR.
 * Called under the turn, like all of the transport. */
#pragma once
#include "transport/tqp.h"

/* After qp_modify() set path_mig_state; @was: before it. */
void apm_modified(struct tqp *q, enum ibv_mig_state was, uint64_t now);
/* A segment of the peer, in REARM or ARMED. */
void apm_input(struct tqp *q, const struct seg *s, uint64_t now);
/* The primary path's retries are exhausted. True: there is another path now. */
bool apm_exhausted(struct tqp *q, uint64_t now);
