// SPDX-License-Identifier: MIT
/* The requester of a QP: reads WQEs from the SQ ring and sends them as request segments, in order.
 * A WQE that was started stands in the ring of sent[] (sent.h) until it is completed: [head, cur)
 * are sent completely, cur is being sent from @psn on, [cur, tail) wait (after going back).
 * Only the transport's files look inside. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "link/link.h"
#include "wire/aeth.h"

struct sent;
struct tqp;

enum requester_wait {
	WAIT_NOTHING,
	WAIT_RNR, /* for the RNR timer or an RNR clear */
	WAIT_LOST, /* same-host: nobody took or answered a segment; for the ack timeout */
};

struct inner_queue;
struct recovery;
struct pace { /* pace.h */
	uint32_t kbps; /* 0: no limit */
	uint32_t burst; /* bytes */
	uint64_t at; /* ns: when what has left would have left at that rate */
};

struct rtt { /* rtt.h; ns */
	uint64_t at; /* when @psn has left; 0: none is timed */
	uint32_t psn;
	uint64_t mean, deviation; /* 0: nothing was measured */
	uint64_t least, least_at; /* of the last seconds, and when it was measured */
};

struct congestion { /* congestion.h */
	uint32_t window; /* PSNs */
	uint32_t una; /* when it was last looked at */
	uint32_t round; /* the round trip ends when una gets here */
	uint32_t acked, lost; /* PSNs of this round trip */
	uint32_t asked; /* the last that asks for an ACK */
	uint64_t at; /* when una moved last */
	bool slow; /* start: not shrunk since */
	bool shrunk; /* in this round trip */
};

struct credit { /* credit.h; messages, 24 bits */
	uint32_t sent; /* begun, each part of a READ, too */
	uint32_t msn; /* of the latest ACK */
	uint32_t last; /* the last that has a receive, if limited */
	bool limited;
};

struct requester {
	struct sent *sent; /* NULL until the first WQE */
	uint32_t mask; /* entries - 1 */
	uint32_t head, cur, tail;
	uint32_t una; /* the oldest PSN that is not acknowledged */
	uint32_t psn; /* the next to send */
	uint32_t max_psn; /* one past the highest ever sent */
	uint32_t next_psn; /* the first of the next WQE */
	uint32_t mtu; /* bytes */
	uint16_t next_block;
	uint16_t reads; /* SENT_READ without SENT_DONE in [head, cur) */
	uint8_t retries; /* left */
	uint8_t rnr_retries; /* left; 7: without end */
	uint8_t wait; /* enum requester_wait */
	bool blocked; /* the waiter is on the destination's list */
	bool unflushed; /* segments were sent for which the peer is to be woken yet */
	bool exchanged; /* the peer has answered through the ring: direct access may follow */
	bool waited; /* the WQE at cur, for those before it, to go by direct access */
	struct {
		uint16_t in, gap; /* so many WQEs do not wait; the next time */
	} wait_again[2]; /* READ, WRITE */
	uint32_t direct_done; /* bytes of the WQE at cur that direct access has moved */
	bool by_value; /* the peer could not fetch from us */
	bool no_ref; /* we could not fetch from the peer */
	struct recovery *rec; /* NULL: the peer does not report, sending goes back */
	bool again; /* what is lost is being sent, at psn; sending then goes on where it was */
	uint32_t part; /* PSNs that a READ asks for at once; 0: not known yet */
	bool gap; /* sending went back once because an answer is missing at una */
	uint8_t arming; /* SEG_ARMING or 0: goes with every segment (apm.h) */
	bool draining; /* SQD: the event is still to come */
	uint64_t timer_at; /* ns; TQP_NEVER: none */
	uint64_t try_at; /* when one of retries is used up; TQP_NEVER: not counting */
	uint8_t repeats; /* since something was acknowledged, before the try was used up */
	struct rtt rtt;
	struct congestion cc;
	struct credit credit;
	struct inner_queue *inner; /* NULL until the device has work of its own */
	uint8_t *frame; /* RAW_PACKET: FRAME_MAX bytes to build in; NULL until the first WQE */
	struct cast_way way; /* who has the frame, or the multicast datagram, already */
	uint32_t cut, ncut; /* TSO: payload bytes and segments that are sent */
	struct dest *ud_dest; /* UD: where the WQE that got EAGAIN goes; a reference */
	struct pace pace;
};

/* Sends what may be sent now. */
void requester_run(struct tqp *q, uint64_t now);
