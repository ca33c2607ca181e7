// SPDX-License-Identifier: MIT
/* What a peer is trusted with, decided from facts (docs/design/peer-identity.md). Every process may
 * have a contact: our page, which it can only read, and a ring to write into. A process of our user
 * also gets our tables and mail page; one of another user is a *stranger*. A process that the
 * kernel lets open our memory, and whose memory it lets us open, may reach ours: both prove it by a
 * number that they have read there. It also gets our doorbell, and the files behind our keys: these
 * add speed, never rights. The contacts of strangers are limited, so that processes of the own user
 * always find room. Pure. */
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
	pid_t pid; /* by SO_PEERCRED, in our PID namespace; 0: not visible from here */
	pid_t shown; /* its number in the /proc that is mounted here; 0: it is not there */
	uid_t uid; /* by SO_PEERCRED */
	bool stranger; /* another user's process */
	bool watched; /* a pidfd shows when the process of that pid ends */
	bool exact; /* the pidfd is the connection's own (SO_PEERPIDFD) */
	pid_t answered; /* sender of the message with our nonce (SCM_CREDENTIALS); 0: none */
};

enum trust_word trust_word(const char *text); /* NULL: the variable is not set */
/* @alike: users that our user namespace does not map appear under this id, too. @seen: the kernel
 * lets us look into that very process, so it is of our user. */
bool trust_stranger(uid_t peer, uid_t ours, bool alike, bool seen);
enum trust_claim {
	TRUST_CLAIM_FALSE,
	TRUST_CLAIM_TRUE,
	TRUST_CLAIM_UNSEEN, /* neither pid is visible from here: the slot's owner is to be asked */
};

/* @peer claims a slot whose name @owner has bound: are they the same process? */
enum trust_claim trust_slot(const struct trust_name *peer, const struct trust_name *owner);
/* How many contacts strangers have with this process: all of them, or those of one user. */
struct trust_share {
	uint32_t contacts; /* up or pending: two descriptors each */
	uint32_t pending; /* handshakes under way; those begun here and there are counted apart */
};
struct trust_limits {
	struct trust_share all, each; /* all strangers together; those of one user */
};
/* Of a process with room for @places contacts that may have @descriptors: strangers have at most
 * half of the places and a quarter of the descriptors, one user half of that. */
struct trust_limits trust_limits(uint32_t places, uint64_t descriptors);
/* May a stranger have one more, with @taken of @most in use? @asked: our program wants the contact,
 * so only the share of all strangers limits it, and not that of one user. */
bool trust_admits(const struct trust_limits *taken, const struct trust_limits *most, bool asked);
/* May a stranger send this segment? Only its own: it passes none on from a network, multicast and
 * frames of strangers come by way of the kernel, and none counts as damaged: that would be an ICRC
 * error of whatever QP it names. */
bool trust_segment(const struct seg *s);
/* Is the process that has n->pid, and n->shown, and whose pidfd says that it has not ended, surely
 * the peer? */
bool trust_name(const struct trust_name *n);
bool trust_offer(enum trust_word word); /* may the peer try to open our memory, and we its? */
/* Is a descriptor of our memory sent to each process of our user, and one of theirs used? */
bool trust_lend(enum trust_word word);
/* Has the peer read our @secret, which is never 0? @proof: the number that it sends. */
bool trust_proof(uint64_t proof, uint64_t secret);
/* May the file behind a key be sent? @mutual: each reaches the other's memory; @direct: only dereg
 * and rereg revoke the key; @alive: the peer sees at once when we end. */
bool trust_file(bool mutual, bool direct, bool alive);
