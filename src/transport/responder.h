// SPDX-License-Identifier: MIT
/* The responder of a QP takes request segments in PSN order, places their payload, executes READs
 * and atomics, and answers. Its state is embedded in struct tqp; the transport looks inside, and
 * src/dc; the engine reads epsn and msn.
 *
 * The answers that wait for the link are bounded: those of READs and atomics stand in a ring, which
 * is allocated for the first of them; behind them waits one cumulative ACK or one NAK. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "hca/srq.h"
#include "transport/fate.h"
#include "transport/grounds.h"

struct hold;
struct parcel;
struct tqp;
struct seg;

enum { RESPONDER_DEPTH = 16, RESPONDER_ANSWERS = 32 };

enum answer_kind { ANSWER_READ, ANSWER_ATOMIC, ANSWER_WRITTEN /* atomic write: no data */ };

struct saved { /* a READ or atomic that was executed lately, for its duplicates */
	uint32_t psn, npsn;
	uint8_t kind; /* enum answer_kind */
	uint8_t followed; /* by a SEND or a WRITE, if it is the newest */
	uint32_t rkey, len; /* READs: a duplicate asks for a part of [va, va + len) */
	uint64_t va;
	uint64_t orig; /* atomics: the value that was replaced */
};

struct answer { /* to a READ or atomic; it has not left, or not completely */
	uint32_t psn, npsn; /* first of the PSNs that have not left, and their number */
	uint8_t kind; /* enum answer_kind */
	bool no_ref; /* the requester wants the bytes by value */
	bool again; /* to a duplicate */
	bool started; /* a part of it has left */
	uint32_t rkey, pdn, len, msn;
	uint64_t va; /* READ: address of the bytes that have not left */
	uint64_t orig; /* atomics: the value that was replaced */
};

struct responder_reads {
	struct saved saved[RESPONDER_DEPTH];
	uint32_t nsaved; /* counts all that were ever saved */
	struct answer out[RESPONDER_ANSWERS];
	uint32_t first, last; /* answers [first, last) of out wait */
	uint32_t fresh; /* how many of them answer a request that is no duplicate */
	uint32_t waiting; /* answers that wait for the end of the turn, if q->unsettled */
};

enum responder_message { MSG_NONE, MSG_SEND, MSG_WRITE, MSG_SKIP /* UC: dropped to its end */ };

struct responder_tag { /* tag matching of the message in hand (tag.h) */
	uint8_t what; /* enum tag_cqe; 0: an ordinary receive */
	bool pending; /* its rendezvous is to begin */
	uint32_t ctx, rkey, len;
	uint64_t tag, va;
};

enum responder_silence {
	SILENT_IN_TURN = 1, /* XRC: until answer_release() */
	SILENT_SHARING = 2, /* until tqp_resume(): long answers leave in parts, one each turn */
};

struct responder {
	uint32_t epsn; /* expected PSN: that of the next request */
	uint32_t peer; /* QP number that it answers; in RESET the attributes have none */
	uint32_t msn; /* counts executed messages; 24 bits */
	uint8_t msg; /* enum responder_message: the message that has begun */
	bool have_rwqe; /* rwqe is taken and not completed */
	bool strayed; /* XRC: the segment names another SRQ than the message that has rwqe */
	bool nak_sent; /* for a sequence error or RNR: no further NAK before epsn comes */
	bool nak_due; /* a NAK waits behind the answers */
	bool comm_est; /* IBV_EVENT_COMM_EST was raised */
	bool turned_away; /* a request came before RTR: the peer is told when it may come */
	uint8_t silent; /* enum responder_silence: no answer leaves; 0: answers leave */
	bool catching_up; /* executing requests that were kept; one ACK follows for all of them */
	bool unreplied; /* the program has posted nothing since the last message came */
	bool ack_delayed; /* the ACK that is due is delayed until the program replies */
	uint8_t replies; /* messages in a row that were replied to one by one */
	uint8_t nak; /* syndrome of the NAK that is due */
	uint32_t nak_psn; /* its PSN */
	struct grounds grounds; /* of the last refusal, until the NAK has left */
	uint32_t rkey; /* of the WRITE that has begun */
	uint32_t left; /* bytes of the WRITE that are still to come */
	uint64_t va; /* address of the next of them */
	uint64_t got; /* bytes of the message that have come */
	uint64_t now; /* ns: time of the segment in hand */
	/* RAW_PACKET: frames that wait for a receive, oldest first, each until parcel.at */
	struct parcel *frames, *last_frame;
	uint32_t frame_bytes; /* bytes of memory that they take */
	struct responder_reads *reads; /* NULL until the first READ or atomic */
	struct hold *hold; /* requests that came too early; NULL until the first */
	struct responder_tag tag;
	struct rwqe rwqe; /* the receive of the message in hand, if have_rwqe */
};

/* RC: a request segment. */
void responder_input(struct tqp *q, const struct seg *s, uint64_t now);
