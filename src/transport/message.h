// SPDX-License-Identifier: MIT
/* Requests that carry their payload: SEND and WRITE. */
#pragma once
#include "transport/sent.h"

/* The next segment of @e. False: it has to wait, or the QP has stopped. */
bool message_send(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now);
