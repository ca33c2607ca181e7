// SPDX-License-Identifier: MIT
/* Header prediction (docs/design/prediction.md): an RC SEND of one short piece between two
 * processes of a host, which is most messages, is sent and received in few steps. What is not
 * exactly as predicted takes the ordinary way, for which these functions have changed nothing.
 * Under the QP's turn, inside a quiesce section, as all of the transport. */
#pragma once
#include "transport/tqp.h"

/* Sends what was posted. False: a part of it may be sent, and the rest is not of the predicted
 * form, the link has no room, or the requester has other work. Reads no clock. */
bool predicted_doorbell(struct tqp *q);
/* Executes @s, a segment for the QP, and takes the ACK on it. False: it is not the predicted
 * one. */
bool predicted_receive(struct tqp *q, const struct seg *s, uint64_t now);
