// SPDX-License-Identifier: MIT
/* Requests that are answered by data: READ, the atomics, atomic write. */
#pragma once
#include "transport/sent.h"

/* A READ that was partly answered goes on where it stopped. False: it has to wait, or the QP has
 * stopped. */
bool read_request_send(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now);
