// SPDX-License-Identifier: MIT
/* The requester's timer and its counts of tries. On same-host links, which lose nothing, it runs
 * only while the peer neither takes nor answers segments (WAIT_LOST), and after that until the peer
 * acknowledges one (enum requester_doubt). The watchdog looks after a peer that takes segments and
 * does not answer (retry_watch()). */
#pragma once
#include "transport/tqp.h"

void ack_timer_set(struct tqp *q, uint64_t at); /* ns */
void ack_timer_arm(struct tqp *q, uint64_t now); /* if segments are outstanding */
/* The watchdog, where no timer runs: its next look is due one step from @now. */
void ack_timer_watch(struct tqp *q, uint64_t now);
/* The peer has acknowledged something: all counts start afresh. */
void ack_timer_progress(struct tqp *q, uint64_t now);
/* The peer has got a packet behind the one that it misses: the tries start afresh. */
void ack_timer_heard(struct tqp *q, uint64_t now);
/* The timeout may have changed, from 0 too, with which nothing is timed: the watch, or the wait for
 * a peer that is lost, begins anew. */
void ack_timer_changed(struct tqp *q, uint64_t now);
void ack_timer_lost(struct tqp *q, uint64_t now); /* the link says that there is no peer */
/* An answer names PSNs that are not outstanding. On a link that keeps order, or if it is the first
 * answer of all, it is not an old one: the peer's rq_psn is not this QP's sq_psn. As on a wire, the
 * tries are used up then. */
void ack_timer_out_of_step(struct tqp *q, uint64_t now);
