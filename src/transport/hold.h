// SPDX-License-Identifier: MIT
/* Requests that came ahead of one that is missing. Between hosts that understand reports they are
 * kept, at most HOLD_PSNS PSNs and HOLD_BYTES of them, and executed in order when the gap fills;
 * the peer is told what is here by OP_REPORT, so that it repeats what is missing alone.
 *
 * A report: BTH's psn is the one that is missing, all before it are executed. Its payload: the
 * syndrome and MSN of an ACK, then a bit for each PSN behind the missing one, lowest bit first.
 *
 * An XRC target's are kept by the process of the SRQ, which alone can execute them, not in what the
 * domain shares: they are dropped when another process has moved it (xrc_load()), and gone with the
 * process that kept them; the requester sends them again (recovery_missing(), or when time passes).
 */
#pragma once
#include "transport/tqp.h"

enum {
	HOLD_PSNS = 512, /* a power of two */
	HOLD_BYTES = 1 << 20,
	REPORT_AETH = 4, /* bytes in front of the bits */
	REPORT_MAX = REPORT_AETH + HOLD_PSNS / 8,
};

bool hold_able(const struct tqp *q); /* does it keep, or NAK? */
bool hold_any(const struct tqp *q);
/* A request ahead of the one that is missing. True: the peer should hear of it now. */
bool hold_keep(struct tqp *q, const struct seg *s);
/* What stands at the PSN that comes next: taken out. NULL: nothing. */
struct parcel *hold_take(struct tqp *q);
/* @n PSNs from @psn on were executed: what a wrong peer has put inside them is dropped. */
void hold_passed(struct tqp *q, uint32_t psn, uint32_t n);
/* The report's payload: its length in bytes. */
uint32_t hold_report(const struct tqp *q, uint8_t syndrome, uint8_t out[REPORT_MAX]);
void hold_forget(struct tqp *q);
