// SPDX-License-Identifier: MIT
/* The datagram service: each WQE is one segment to an address of its own, without an
 * acknowledgement. */
#pragma once
#include "transport/sent.h"

/* Sends a WQE and completes it. False: it waits for room in the link, or the QP has stopped. */
bool ud_send(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now);
void ud_input(struct tqp *q, const struct seg *s, uint64_t now);
