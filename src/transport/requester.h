// SPDX-License-Identifier: MIT
/* The requester of a QP: reads WQEs from the SQ ring and sends them as request segments, in order.
 * A WQE that was started stands in the ring of sent[] (sent.h) until it is completed: [head, cur)
 * are sent completely, cur is being sent from psn on, (cur, tail) wait since sending went back.
 * The transport looks inside, and src/dc. The engine reads for traces, casts and tools, and writes
 * what is its own: the kept path, the way of a cast, in a forked child what is the parent's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "link/link.h"
#include "transport/grounds.h"
#include "wire/aeth.h"

struct kept_path;
struct sent;
struct tqp;

enum requester_wait {
	WAIT_NOTHING,
	WAIT_RNR, /* for the RNR timer, or for the notice that receives were posted */
	WAIT_LOST, /* for the ack timeout, since the peer takes or answers no segment */
};

/* What is wrong with the peer, until it acknowledges something; on a link that loses nothing, why
 * tries are timed. */
enum requester_doubt {
	DOUBT_NOTHING,
	DOUBT_PEER, /* it took a segment and did not answer it */
	DOUBT_PSN, /* it answers other PSNs: its rq_psn is not this QP's sq_psn */
};

struct inner_queue;
struct recovery;
struct pace { /* pace.h */
	uint32_t kbps; /* 0: no limit */
	uint32_t burst; /* bytes */
	uint64_t at; /* ns: earliest time of the next segment */
	uint64_t asked; /* ns: when a segment in the middle of a message asked for an ACK */
};

struct rtt { /* rtt.h; ns */
	uint64_t at; /* when @psn left; 0: no PSN is timed */
	uint32_t psn; /* the PSN that is timed */
	uint64_t mean, deviation; /* of the round trip; 0: not measured */
	uint64_t least, least_at; /* shortest of the last seconds, and when it was measured */
};

struct congestion { /* congestion.h */
	uint32_t window; /* PSNs */
	uint32_t una; /* the requester's una at the last progress */
	uint32_t round; /* PSN at which una ends this round trip */
	uint32_t acked, lost; /* PSNs in this round trip */
	uint32_t asked; /* last PSN that asked for an ACK */
	uint64_t at; /* ns: when una moved last */
	bool slow; /* slow start: the window has not shrunk since the start */
	bool shrunk; /* the window has shrunk in this round trip */
};

struct credit { /* credit.h; messages, 24 bits */
	uint32_t sent; /* messages begun; each part of a READ is one */
	uint32_t msn; /* MSN of the latest ACK */
	uint32_t last; /* last message with a receive, if limited */
	uint32_t left; /* receives that the latest ACK announced, if limited */
	bool limited; /* the peer's ACKs announce its receives */
};

/* Rare looks at a requester that waits on a lossless link (docs/design/silence.md). */
struct watchdog {
	struct link_mark mark; /* how far the peer's process should have taken segments by now */
	uint64_t busy; /* ns: the last look that found something outstanding, or progress */
	uint32_t una; /* the requester's una at the last look */
	bool on; /* looks are due, or the timeout is 0 */
	bool waits; /* the last look found something outstanding */
};

/* READs and WRITEs that follow each other too closely for direct access to be the fastest way. */
struct series {
	uint64_t since, last; /* ns: of its first work request, of the newest */
	uint32_t polls; /* of the program, as env->polls() counts */
	uint32_t direct_ns; /* time of one by direct access; 0: not known */
	uint32_t mark; /* PSN: when it is acknowledged, the ring is compared with direct access */
	uint32_t again_in, again_next; /* work requests until the ring is tried: now, next time */
	uint16_t n; /* work requests; by the ring: those since the last comparison */
	bool by_ring; /* they go by the ring now */
	bool proven; /* the ring was the faster way in the last comparison */
	bool leave; /* it was not: direct access follows when nothing is outstanding */
};

struct direct { /* direct.h */
	bool exchanged; /* the peer has answered a segment, or a service without answers has sent
			   one: direct access may follow */
	bool waited; /* the WQE at cur waits for those before it, to go by direct access */
	struct {
		uint16_t in, next; /* WQEs that do not wait for direct access: now, next time */
	} wait_again[2]; /* READ, WRITE */
	struct series series;
	bool by_ring; /* the next WQE that could go by direct access does not */
	uint32_t done; /* bytes of the WQE at cur that direct access has moved */
	struct link_grant grant;
};

/* Tries to get an answer; afresh when the peer has acknowledged something (ack_timer.h). */
struct tries {
	uint64_t end; /* ns: when this try is used up; TQP_NEVER: no try runs */
	uint8_t left; /* of retry_cnt */
	uint8_t rnr_left; /* of rnr_retry, after an RNR NAK; 7: without end */
	uint8_t repeats; /* times that the segment at una was sent again in this try */
	bool gone_back; /* for a NAK, since the segment at una was last repeated for want of an
			   answer. Through a network another one is not taken: it may be the answer
			   to a copy that went before, and the two ends would multiply them */
	bool overtaken; /* sending has gone back because a later answer overtook the one at una */
};

struct requester {
	struct sent *sent; /* NULL until the first WQE */
	uint32_t mask; /* entries - 1 */
	uint32_t head, cur, tail; /* indices of sent[] */
	uint32_t una; /* oldest PSN that is not acknowledged */
	uint32_t psn; /* next PSN to send */
	uint32_t max_psn; /* one past the highest ever sent */
	uint32_t next_psn; /* first PSN of the next WQE */
	uint32_t mtu; /* bytes */
	uint16_t next_block; /* of the SQ: where the next WQE begins */
	uint16_t reads; /* entries of [head, cur) with SENT_READ and without SENT_DONE */
	uint8_t wait; /* enum requester_wait */
	uint8_t doubt; /* enum requester_doubt */
	bool elsewhere; /* answers came from other senders than the peer since the last progress */
	bool blocked; /* the QP's waiter is on a destination's list */
	struct {
		uint64_t process; /* that had no room for 5 seconds: dest.process; 0: none */
		uint32_t lost; /* segments that it has not got */
	} late; /* blocked.h */
	bool unflushed; /* the destination has segments that leave by its flush() */
	struct direct direct;
	bool by_value; /* the peer cannot fetch from this process */
	bool no_ref; /* this process cannot fetch from the peer */
	struct recovery *rec; /* NULL: the peer does not report; sending goes back after a loss */
	bool again; /* a lost segment is being sent again, at psn */
	uint32_t part; /* PSNs that one READ request asks for; 0: not known yet */
	uint8_t arming; /* SEG_ARMING or 0: a flag of every segment (apm.h) */
	struct {
		bool draining; /* IBV_EVENT_SQ_DRAINED is still to come */
		bool stopped; /* by a wrong signature: the event was not asked for */
	} sqd;
	uint64_t timer_at; /* ns: when retry_timer(), cast_timer() or blocked_timer() acts;
			      TQP_NEVER: not set */
	struct tries tries;
	struct watchdog dog;
	struct rtt rtt;
	struct congestion cc;
	struct credit credit;
	struct inner_queue *inner; /* NULL until the device has work of its own */
	uint8_t *frame; /* RAW_PACKET: FRAME_MAX bytes to build in; NULL until the first WQE */
	struct cast_way way; /* how far a frame or a multicast datagram has got */
	struct {
		uint32_t bytes, segments; /* of the WQE at cur that are sent; bytes of payload */
	} tso;
	struct {
		struct dest *full; /* of the WQE at cur, which waits for room there; a reference */
		struct dest *open; /* its segments leave by flush(); a reference */
		struct kept_path *kept; /* of its last datagrams; the engine's, or NULL */
	} ud;
	struct pace pace;
	struct {
		struct grounds what;
		uint32_t psn; /* of the segment that they are about */
	} told; /* by the peer */
};

/* Starts posted work requests and sends their segments, as far as the window and the link allow. */
void requester_run(struct tqp *q, uint64_t now);
/* The same after a segment that came in: through a network the segments leave by tqp_settle(). */
void requester_answered(struct tqp *q, uint64_t now);
/* The same after a doorbell: the segments may wait for those of the program's next posts. */
void requester_posted(struct tqp *q, uint64_t now);
