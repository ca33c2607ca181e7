// SPDX-License-Identifier: MIT
/* Blocking calls. A thread that blocks in wait_cq_event() is the engine meanwhile (leader.h).
 * EAGAIN: the descriptor has O_NONBLOCK. EINTR is not hidden where read(2) would show it. */
#pragma once
#include "hca/comp_channel.h"

int wait_cq_event(struct comp_channel *ch, struct ibv_cq **cq);
int wait_async_event(struct context *ctx, struct ibv_async_event *out);
