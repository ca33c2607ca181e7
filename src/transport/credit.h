// SPDX-License-Identifier: MIT
/* End-to-end credits, through a network: an ACK says how many receives are posted behind the
 * messages that it counts. A message beyond them goes out packet by packet, each when nothing else
 * is on its way: so the requester learns of receives posted since, or hears an RNR NAK, and nobody
 * needs to be told. */
#pragma once
#include "transport/tqp.h"

uint8_t credit_syndrome(const struct tqp *q); /* for an ACK of the responder */
void credit_learn(struct tqp *q, uint8_t syndrome, uint32_t msn); /* from an ACK */
/* Of a SEND or WRITE that is being sent: is it beyond them, so that each packet asks for an ACK? */
bool credit_short(const struct tqp *q, const struct sent *e);
bool credit_allows(const struct tqp *q, const struct sent *e); /* may its next packet leave? */
