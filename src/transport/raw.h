// SPDX-License-Identifier: MIT
/* RAW_PACKET queue pairs send Ethernet frames as the program wrote them: each is built in a buffer
 * of the QP (inline headers, data, padding, checksums where asked for; of a TSO send one frame
 * after the other) and handed to cast_send(). A send succeeds whether or not the frame arrives. */
#pragma once
#include "transport/fate.h"
#include "transport/sent.h"

enum verdict raw_allowed(const struct wqe *w); /* opcode and lengths */
/* Sends the entry's frames. False: it waits for room, or the QP has stopped. */
bool raw_send(struct tqp *q, struct sent *e, const struct wqe *w, uint64_t now);
