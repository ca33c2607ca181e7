// SPDX-License-Identifier: MIT
/* What a peer is trusted with, decided from facts (docs/design/peer-identity.md). Every process
 * may have a contact: our page, which it can only read, and a ring to write into. One of our user
 * gets our tables and our doorbell besides; another user's is a *stranger*. Our memory is for a
 * process that the kernel lets open it, and that we may open too: both prove it by what they have
 * read there. Files behind our keys are for such a peer: they add speed, never rights. And what
 * strangers can take from a process is limited, so that its own user's always find room. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "link/seg.h"

enum trust_word { /* what SOFTHCA_DIRECT says */
		  TRUST_NO_WORD,
		  TRUST_NOBODY, /* 0 */
		  TRUST_EVERYBODY, /* 1 */
};

/* Which process a connection leads to */
struct trust_name {
	pid_t pid; /* by SO_PEERCRED; 0: not visible from here */
	uid_t uid; /* the same */
	bool stranger; /* another user's process */
	bool watched; /* a pidfd shows when the process of that pid ends */
	bool exact; /* the pidfd is the connection's own (SO_PEERPIDFD) */
	pid_t answered; /* whose message repeated our nonce (SCM_CREDENTIALS); 0: nobody's yet */
};

enum trust_word trust_word(const char *text); /* NULL: the variable is not set */
/* @crowd: our namespace shows users that it does not map under this id, too. @seen: the kernel lets
 * us look into that very process, so it is of our user. */
bool trust_stranger(uid_t peer, uid_t ours, bool crowd, bool seen);
enum trust_claim {
	TRUST_CLAIM_FALSE,
	TRUST_CLAIM_TRUE,
	TRUST_CLAIM_UNSEEN, /* neither's pid is visible from here: the owner is to be asked */
};

/* The process @peer says that it has a slot, whose name @owner has bound. */
enum trust_claim trust_slot(const struct trust_name *peer, const struct trust_name *owner);
/* What strangers have of a process: all of them, or those of one user. */
struct trust_share {
	uint32_t contacts; /* up, and pending: two descriptors each */
	uint32_t pending; /* handshakes that are under way, begun by the same side */
};
struct trust_limits {
	struct trust_share all, each; /* all strangers together; those of one user */
};
/* Of a process with room for @places contacts that may have @descriptors: strangers have at most
 * half of the places and a quarter of the descriptors, one user half of that. */
struct trust_limits trust_limits(uint32_t places, uint64_t descriptors);
/* May there be one more, where so much is taken? @asked: our program wants it, so that its user's
 * share does not count. */
bool trust_admits(const struct trust_limits *taken, const struct trust_limits *most, bool asked);
/* A stranger speaks for itself: it passes nothing on from a network, and multicast and frames come
 * by way of the kernel. */
bool trust_segment(const struct seg *s);
/* Is the process that has this pid, and whose pidfd says that it has not ended, the peer? */
bool trust_name(const struct trust_name *n);
bool trust_offer(enum trust_word word); /* the peer may try to open our memory, and we its */
bool trust_lend(enum trust_word word); /* a descriptor of our own goes to it, whatever it may */
/* @proof: what the peer says that it has read at @secret, which is never 0. */
bool trust_proof(uint64_t proof, uint64_t secret);
/* @mutual: each reaches the other's memory. @direct, @alive: only its owner revokes the key, and
 * the peer sees at once when we end. */
bool trust_file(bool mutual, bool direct, bool alive);
