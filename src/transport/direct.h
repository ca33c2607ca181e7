// SPDX-License-Identifier: MIT
/* Direct access: a READ or WRITE of an RC QP, or a WRITE of a UC QP, that the requester's own
 * thread executes on the memory of a peer process (docs/design/direct-access.md). */
#pragma once
#include "transport/gather.h"
#include "transport/sent.h"

enum direct_way { BY_RING, DIRECTLY, LATER };

/* Executes @w, whose pieces of this process are @g: all of it (DIRECTLY), or a part, and the rest
 * in later turns (LATER). BY_RING: it is to go out as segments. */
enum direct_way direct_try(struct tqp *q, struct sent *e, const struct wqe *w,
			   const struct gather *g, uint64_t now);

/* The same for a WRITE or READ of at most DIRECT_SHORT bytes, the oldest, on a QP that has done so
 * before and has nothing outstanding. False: direct_try() is told to send it by the ring. */
enum { DIRECT_SHORT = 8 << 10 };
bool direct_at_once(struct tqp *q, struct direct_ask *ask, uint64_t now);
