// SPDX-License-Identifier: MIT
/* A hostile process of the same host: it has no struct host, speaks the handshake by itself, and
 * says what pays. It keeps every descriptor that it gets, writes whatever segments it likes into
 * its ring, and reads what its victim publishes. A step that fails ends the process by die() or
 * fail() (verbs/peer.h). */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "link/seg.h"
#include "peers/contact_message.h"
#include "peers/host_page.h"
#include "peers/ring_end.h"

enum { SPEAKER_KEYS = 64, SPEAKER_FDS = 64 };

struct speaker {
	int name, conn; /* bound to its slot's name; to the victim */
	struct host_page *page; /* its own, which its victim reads */
	struct contact_message welcome; /* the victim's */
	struct ring_end out; /* what it writes to */
	int fd[SPEAKER_FDS]; /* all that came */
	unsigned int n_fds;
};

/* Meets the process that has @slot, as one of its user that has slot @mine: HELLO, WELCOME, READY,
 * FETCHES, with the proofs invented and everything claimed that could be believed. */
void speaker_meet(struct speaker *x, unsigned int slot, unsigned int mine);
/* The kind of the next message, whose descriptors are kept; 0: none came in @ms. */
uint32_t speaker_hear(struct speaker *x, struct contact_message *m, int ms);
/* Puts a segment into the ring, and waits for room as long as it takes. */
void speaker_put(struct speaker *x, const struct seg *s, const void *payload);
/* Until the victim has taken all of it. */
void speaker_taken(struct speaker *x);
