// SPDX-License-Identifier: MIT
/* The responder of a QP: takes request segments in PSN order, places their payload, executes
 * READs and atomics, and answers. Its state, embedded in struct tqp; only the transport's files
 * look inside.
 *
 * Answers that the link cannot take at once are bounded: READs and atomics stand in a ring
 * (allotted at the first of them), everything else is one cumulative ACK or one NAK behind them. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "hca/srq.h"
#include "transport/fate.h"

struct hold;
struct parcel;
struct tqp;
struct seg;

enum { RESPONDER_DEPTH = 16, RESPONDER_ANSWERS = 32 };

enum answer_kind { ANSWER_READ, ANSWER_ATOMIC, ANSWER_WRITTEN /* atomic write: no data */ };

struct saved { /* a READ or atomic executed lately, for duplicates */
	uint32_t psn, npsn;
	uint8_t kind; /* enum answer_kind */
	uint64_t orig; /* atomics: what was found */
};

struct answer { /* a READ or atomic whose answer has not left (completely) */
	uint32_t psn, npsn; /* what is left */
	uint8_t kind; /* enum answer_kind */
	bool no_ref, again, started;
	uint32_t rkey, pdn, len, msn;
	uint64_t va;
	uint64_t orig;
};

struct responder_reads {
	struct saved saved[RESPONDER_DEPTH];
	uint32_t nsaved; /* ever */
	struct answer out[RESPONDER_ANSWERS];
	uint32_t first, last; /* [first, last) wait */
	uint32_t fresh; /* of them, those that are no repetition */
};

enum responder_message { MSG_NONE, MSG_SEND, MSG_WRITE, MSG_SKIP /* UC: a damaged one */ };

struct responder_tag { /* of the message in hand, on a tag-matching SRQ (tag.h) */
	uint8_t what; /* enum tag_cqe; 0: an ordinary receive */
	bool pending; /* a rendezvous is to begin */
	uint32_t ctx, rkey, len;
	uint64_t tag, va;
};

struct responder {
	uint32_t epsn; /* the PSN that comes next */
	uint32_t peer; /* whom it answers; the QP's attributes are gone in RESET */
	uint32_t msn;
	uint8_t msg; /* enum responder_message: in the middle of */
	bool have_rwqe; /* rwqe is taken and not completed */
	bool nak_sent; /* sequence error or RNR: silence until epsn comes */
	bool nak_due; /* a NAK waits behind the answers */
	bool comm_est; /* the event was raised */
	bool silent; /* nothing leaves before answer_release() */
	bool catching_up; /* what was held is being executed; its ACKs come at the end, as one */
	bool unreplied; /* a message has come, and the program has posted nothing since */
	bool ack_held; /* ack_due, and it waits for the reply */
	uint8_t replies; /* that followed a message each, one by one: answer_replied() */
	uint8_t nak; /* its syndrome */
	uint32_t nak_psn;
	uint32_t rkey; /* of the WRITE in the middle */
	uint32_t left; /* bytes the WRITE still has to bring */
	uint64_t va; /* where the next go */
	uint64_t got; /* bytes of the message so far */
	uint64_t now; /* of the input that is being worked on */
	/* RAW_PACKET: frames that wait for a receive, oldest first; parcel.at: until when */
	struct parcel *held, *held_last;
	uint32_t held_bytes;
	struct responder_reads *reads;
	struct hold *hold; /* NULL until a request came too early */
	struct responder_tag tag;
	struct rwqe rwqe;
};

/* RC: a request segment. */
void responder_input(struct tqp *q, const struct seg *s, uint64_t now);
