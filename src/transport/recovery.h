// SPDX-License-Identifier: MIT
/* Selective recovery: what the requester knows of each PSN that is outstanding, towards a peer that
 * reports (hold.h). A READ's PSNs are those of its response, which is taken in any order.
 *
 * Each sending of a PSN has a number. Something is lost when what was sent after it has arrived
 * (the network keeps the order of a flow, or it costs a packet too many), or when time has passed;
 * so nothing is asked for again while it is on its way. Sending never goes back: r->psn is one past
 * the highest PSN sent, and what is lost goes out again before anything new. */
#pragma once
#include "transport/tqp.h"

enum {
	RECOVERY_PSNS = 512, /* a power of two: so many from una on can be told apart */
	RECOVERY_AHEAD = 256, /* so far from una on sending starts; a READ may reach further */
};

/* Begins it if the peer is able. @told: it has sent a report. */
void recovery_begin(struct tqp *q, bool told);
void recovery_end(struct tqp *q);

/* [psn, psn + n) leaves now: a packet of a message, or a READ (@read) that asks for so many. */
void recovery_sent(struct tqp *q, uint32_t psn, uint32_t n, bool read);
/* May something leave, with @window PSNs on their way at most? What all the others wait for may. */
bool recovery_open(const struct tqp *q, uint32_t window);
/* Is all that the peer's end can take nearly on its way, and an ACK due? Then sending begins when
 * there is room for a quarter of it or for a train: what leaves by twos and threes costs the kernel
 * as much each time, and its ACKs make room for twos and threes again. Where the path takes less
 * than the end, each ACK is followed at once: bursts would take their share from other senders. */
bool recovery_crowded(const struct tqp *q);
uint32_t recovery_questions(const struct tqp *q); /* READs and atomics on their way, at most */
bool recovery_lost(const struct tqp *q); /* is there anything to send again? */
/* The first PSN that is lost; *n: how many from it on a READ asks for at once. */
uint32_t recovery_first(const struct tqp *q, uint32_t *n);

void recovery_acked(struct tqp *q, uint32_t psn); /* the peer has executed all before @psn */
/* The same, said by an answer to @psn. It leaves open what the peer keeps behind it. */
void recovery_answered(struct tqp *q, uint32_t psn);
/* The peer waits for @psn. If it had told that it keeps it, it is another process by now (XRC), and
 * has nothing of what it kept. */
void recovery_missing(struct tqp *q, uint32_t psn);
void recovery_here(struct tqp *q, uint32_t psn, uint32_t n); /* so much of an answer has come */
bool recovery_has(const struct tqp *q, uint32_t psn); /* has it come already? */
bool recovery_reported(struct tqp *q, const struct seg *s); /* false: no report of ours */
/* The first PSN from una on that is not done. What is before it is forgotten. */
uint32_t recovery_front(struct tqp *q);
bool recovery_heard(struct tqp *q); /* has anything arrived since the last call? */

void recovery_again(struct tqp *q); /* what stands at una goes out again */
void recovery_all_again(struct tqp *q); /* all that is on its way does */
