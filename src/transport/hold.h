// SPDX-License-Identifier: MIT
/* Requests that came ahead of a missing one. Between hosts that understand reports the responder
 * keeps them, at most HOLD_PSNS PSNs and HOLD_BYTES bytes, and executes them in order when the gap
 * is filled. It reports to the requester which PSNs are here (OP_REPORT), and the requester repeats
 * only the missing ones.
 *
 * A report: BTH's PSN is the missing one; all before it are executed. The payload is the syndrome
 * and MSN of an ACK, then a bit for each PSN behind the missing one, lowest bit first.
 *
 * The requests of an XRC target are kept by the process of the SRQ, the only one that can execute
 * them, and not in the memory that the domain shares: they are dropped when another process has
 * moved the target (xrc_load()), and lost when their process ends. The requester sends them again
 * (recovery_missing(), or when time has passed). */
#pragma once
#include "transport/tqp.h"

enum {
	HOLD_PSNS = 512, /* a power of two */
	HOLD_BYTES = 1 << 20,
	REPORT_AETH = 4, /* bytes in front of the bits */
	REPORT_MAX = REPORT_AETH + HOLD_PSNS / 8,
};

bool hold_able(const struct tqp *q); /* does the responder keep such requests? Else it NAKs */
bool hold_any(const struct tqp *q); /* does it keep one now? */
/* Keeps @s, which came too early, if there is room. True: a report is due now. */
bool hold_keep(struct tqp *q, const struct seg *s);
/* Takes out the request at q->rsp.epsn. NULL: it was not kept. */
struct parcel *hold_take(struct tqp *q);
/* @n PSNs from @psn on were executed: drops kept requests inside them, which only a peer that
 * breaks the protocol sends. */
void hold_passed(struct tqp *q, uint32_t psn, uint32_t n);
/* Writes a report's payload; its length in bytes. */
uint32_t hold_report(const struct tqp *q, uint8_t syndrome, uint8_t out[REPORT_MAX]);
void hold_forget(struct tqp *q);
