// SPDX-License-Identifier: MIT
/* Selective recovery: the requester's record of each outstanding PSN, towards a peer that reports
 * (hold.h). A READ's PSNs are those of its response, whose packets are taken in any order.
 *
 * Each sending of a PSN has a number. A PSN counts as lost when a later sending has arrived (a
 * network keeps the order of a flow; where it does not, a packet is sent once too often), or when
 * its time has passed. So a PSN is not sent again while it is on its way. Sending never goes back:
 * q->req.psn is one past the highest PSN sent, and lost PSNs go out before new ones.
 * docs/design/loss-recovery.md */
#pragma once
#include "transport/tqp.h"

enum {
	RECOVERY_PSNS = 512, /* a power of two: PSNs from una on that have a record */
	RECOVERY_AHEAD = 256, /* PSNs from una on where sending may start; a READ may end later */
};

/* Begins if the peer is able to report. @told: it has sent a report. */
void recovery_begin(struct tqp *q, bool told, uint64_t now);
void recovery_end(struct tqp *q);

/* [psn, psn + n) leaves now: a packet of a message, or a request (@read) for @n packets of data. */
void recovery_sent(struct tqp *q, uint32_t psn, uint32_t n, bool read, uint64_t now);
/* May a packet leave, with @window PSNs on their way at most? A lost one at una always may. */
bool recovery_open(const struct tqp *q, uint32_t window);
/* Shall sending wait for more room? It shall while nearly as many PSNs are on their way as the
 * peer's end can take and an ACK is due, until there is room for a quarter of them or for a train.
 * Otherwise two or three packets would leave at each ACK, which costs the kernel as much as a
 * train, and their ACKs would make room for two or three again. A QP with a smaller window sends at
 * each ACK, since its bursts would delay other senders. */
bool recovery_crowded(const struct tqp *q);
/* READs and atomics from the oldest without all its data on, whether the data of the others is here
 * or not: the peer has executed them, and can answer no more than max_rd_atomic again. */
uint32_t recovery_questions(const struct tqp *q);
bool recovery_lost(const struct tqp *q); /* is there a PSN to send again? */
/* The first lost PSN; *n: how many from it on one READ request asks for. */
uint32_t recovery_first(const struct tqp *q, uint32_t *n);

/* The peer has executed all before @psn. */
void recovery_acked(struct tqp *q, uint32_t psn, uint64_t now);
/* The same, known by a response to @psn, which says nothing of the PSNs behind it. */
void recovery_answered(struct tqp *q, uint32_t psn, uint64_t now);
/* The peer waits for @psn. If it has reported before that it keeps @psn, another process is the
 * peer now (XRC), and has none of the requests that the former one kept. */
void recovery_missing(struct tqp *q, uint32_t psn);
/* The data of [psn, psn + n) has come. */
void recovery_here(struct tqp *q, uint32_t psn, uint32_t n, uint64_t now);
bool recovery_has(const struct tqp *q, uint32_t psn); /* has the data at @psn come already? */
/* Takes the report @s. False: it names PSNs that were not sent. */
bool recovery_reported(struct tqp *q, const struct seg *s, uint64_t now);
/* The first PSN from una on that is not done. Forgets the records before it. */
uint32_t recovery_front(struct tqp *q);
bool recovery_heard(struct tqp *q); /* has the peer got anything since the last call? */

void recovery_again(struct tqp *q); /* the segment or READ at una goes out again */
void recovery_all_again(struct tqp *q); /* all that are not done, nor kept by the peer */
