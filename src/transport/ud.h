// SPDX-License-Identifier: MIT
/* The datagram service: each WQE is one segment to an address of its own, without an
 * acknowledgement. */
#pragma once
#include "transport/sent.h"

/* Sends a WQE and completes it. False: it waits for room in the link, or the QP has stopped. */
bool ud_send(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now);
void ud_input(struct tqp *q, const struct seg *s, uint64_t now);
/* Completes the receive that was taken, in which @s is. */
void ud_complete(struct tqp *q, const struct seg *s, uint64_t now);

#define UD_PRIVILEGED_QKEY (1U << 31) /* in a WQE: send the QP's own Q_Key */
