// SPDX-License-Identifier: MIT
/* What a thread does that polls in vain: the sender may be waiting for this very core
 * (docs/design/polling.md). What counts is the time that was spent, since a poll of the rings takes
 * 20 ns and one of a socket a system call.
 *
 * A thread alone on its core polls on. Every 50 us it yields, and by the time that takes it learns
 * whether others want the core. If they do, it rests when a few polls have found nothing: it sleeps
 * until something comes in, since each spin costs the others more than a wake, and a thread that
 * yields forfeits a whole slice. Where it cannot rest it yields, but not before an answer whose
 * sender runs would have come. Crowds last: each time a yield finds others again, it is longer
 * until the next yield asks.
 *
 * The engine thread is told, since a thread that does not poll may only wait for its core (nap.h).
 *
 * No thread of a process that polls by several does either: one that polls under a lock of the
 * program would leave the others spinning for it. Each thread has a struct vain, zeroed; a process
 * has a struct vain_threads, zeroed, and no lock for it: a race costs one answer. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	VAIN_LOOKS = 16, /* empty polls between two looks at the clock, a power of two */
	VAIN_LOOKS_CROWDED = 4, /* the same in a crowd */
	VAIN_NS = 50000,
	VAIN_NS_CROWDED = 2000, /* in a crowd, for a thread that may not rest */
	VAIN_APART = 100000000, /* ns: a thread that has not polled for so long does not count */
	VAIN_SHARED = 20000, /* ns: a yield that takes as long gave the core to another thread */
	VAIN_CROWD_TIMES = 8, /* a crowd is believed in for so many times what the yield took */
	VAIN_CROWD_LEAST = 1000000, /* ns; and for twice as long each time */
	VAIN_CROWD_MOST = 1000000000,
	VAIN_REST_FIRST = 500000, /* ns of a rest, doubled while nothing comes */
	VAIN_REST_MOST = 4000000,
};

/* VAIN_YIELD: and tell vain_yielded(). VAIN_REST: or yield, if that is not possible. */
enum vain_step { VAIN_POLL, VAIN_YIELD, VAIN_REST };

struct vain {
	uint32_t polls; /* that found nothing, in a row */
	uint32_t mask; /* polls between two looks at the clock, less one */
	uint64_t since; /* ns: when the clock was first read in this row */
	uint64_t crowd; /* ns: how long the thread takes its core for crowded */
	uint64_t crowd_end; /* ns: when that ends */
	uint64_t rest; /* ns: of the last rest in this row; 0: there was none */
};

struct vain_threads {
	const struct vain *last; /* the thread that came to vain_next() last */
	uint64_t changed; /* ns: when that was last another one than before; 0: never */
	/* For the engine thread; atomic. */
	uint64_t crowd_end; /* ns: until when the last thread that yielded believes in a crowd */
	uint64_t took, turn; /* ns: its yield; the shorter of the last two: one may be chance */
	uint32_t arms, arms_told; /* CQs that were armed: all; before that yield */
};

static inline void vain_found(struct vain *v)
{
	v->polls = 0;
	v->rest = 0;
}

/* Counts an empty poll. True: now vain_next() is to be asked. */
static inline bool vain_looks(struct vain *v)
{
	return (++v->polls & v->mask) == 0;
}

/* The calling thread's. */
extern __thread struct vain vain_mine __attribute__((tls_model("initial-exec")));

enum vain_step vain_next(struct vain *v, struct vain_threads *t, bool may_rest, uint64_t now);
void vain_yielded(struct vain *v, uint64_t before, uint64_t after);
uint64_t vain_rest(struct vain *v); /* ns that the rest may last */

/* Behind vain_yielded() of @v. A program that arms CQs between its yields waits for events: of a
 * crowd that it finds nothing is told. */
void vain_tell(struct vain_threads *t, const struct vain *v, uint64_t took);
/* A CQ is armed: the program is going to wait for an event. True: the engine thread had been told
 * of a crowd, and now is told of none. */
bool vain_armed(struct vain_threads *t);
/* ns for which a thread that polls may lack its core, since others have their turn; 0: no crowd is
 * told of. */
uint64_t vain_turn(const struct vain_threads *t, uint64_t now);
