// SPDX-License-Identifier: MIT
/* What a peer is trusted with, decided from facts (docs/design/peer-identity.md). Every process of
 * our user may have a contact: our page, which it can only read, a ring to write into, our
 * doorbell. The descriptor of our memory is for a process that could trace us anyway. Files behind
 * our keys are for a peer that has that descriptor: they add speed, never rights. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum trust_word { /* what SOFTHCA_DIRECT says */
		  TRUST_NO_WORD,
		  TRUST_NOBODY, /* 0 */
		  TRUST_EVERYBODY, /* 1 */
};

struct trust_facts {
	pid_t pid; /* the peer's; 0: not visible from here */
	bool fds_left; /* descriptors are not short, with the peer as well */
	bool dumpable; /* we may be traced at all */
	bool yama; /* a process may trace its descendants only */
	bool same_user_ns;
};

enum trust_word trust_word(const char *text); /* NULL: the variable is not set */
bool trust_contact(uid_t peer, uid_t ours);
bool trust_memory(enum trust_word word, const struct trust_facts *f);
/* @memory: it got our memory descriptor. @direct, @alive: only its owner revokes the key, and
 * the peer sees at once when we end. */
bool trust_file(bool memory, bool direct, bool alive);
