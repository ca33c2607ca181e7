// SPDX-License-Identifier: MIT
/* Rate limits (ibv_modify_qp_rate_limit): on any link a QP's requester sends no more kbit/s than
 * its limit, headers included. The QP's deadline says when it may go on. A deadline that is noticed
 * late costs no throughput, as long as the lost time is shorter than a burst. Responses are not
 * limited; the peer's limit is one of its requests. */
#pragma once
#include "transport/tqp.h"

/* @kbps 0: no limit. @burst: bytes that may leave back to back; 0: a millisecond's worth. */
void pace_set(struct tqp *q, uint32_t kbps, uint32_t burst);
/* With a limit: may the next segment leave? False: q->deadline says when. */
bool pace_open(struct tqp *q, uint64_t now);
/* With a limit: the payload bytes of the largest segment, a multiple of the MTU. */
uint32_t pace_segment(const struct tqp *q, uint32_t max);
/* With a limit: shall a segment in the middle of a message, which leaves now, ask for an ACK? One
 * in each millisecond does: the whole message may take longer than all tries together. */
bool pace_asks(struct tqp *q, uint64_t now);
/* With a limit: @len bytes in @npsn packets have left. */
void pace_sent(struct tqp *q, uint32_t len, uint32_t npsn, uint64_t now);
