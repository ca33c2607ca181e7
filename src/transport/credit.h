// SPDX-License-Identifier: MIT
/* End-to-end credits, through a network: an ACK says how many receives are posted beyond the
 * messages that it acknowledges. A message without credit goes out packet by packet, each when no
 * other packet is on its way: its ACK tells of receives that were posted since, or an RNR NAK
 * comes. So the responder need not announce new receives. A message takes one credit; with
 * qp.packet_credits each of its packets does, for peers that put each packet into a receive of its
 * own. */
#pragma once
#include "transport/tqp.h"

uint8_t credit_syndrome(const struct tqp *q); /* for an ACK of the responder */
void credit_learn(struct tqp *q, uint8_t syndrome, uint32_t msn); /* from an ACK */
/* Must the next packet of @e ask for an ACK? It must also if it is the last one with credit, and
 * further packets of its message wait. */
bool credit_asks(const struct tqp *q, const struct sent *e);
/* May the next packet of @e leave? */
bool credit_allows(const struct tqp *q, const struct sent *e);
