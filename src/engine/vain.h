// SPDX-License-Identifier: MIT
/* When a thread that polls in vain gives its core away: the sender may be waiting for that very
 * core (docs/design/polling.md). The time spent decides and not the number of polls, since a poll
 * of the rings takes 20 ns and one of a socket a system call. In a process with several polling
 * threads none gives its core away: if it polled under a lock of the program, the others would spin
 * for it. Each thread has a struct vain, zeroed; a process has a struct vain_threads, zeroed, and
 * no lock for it: a race costs one answer. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	VAIN_LOOKS = 16, /* empty polls between two looks at the clock */
	VAIN_NS = 50000,
	VAIN_APART = 100000000, /* ns: a thread that has not polled for so long does not count */
};

struct vain {
	uint32_t polls; /* that found nothing, in a row */
	uint64_t since; /* ns: when the clock was first read in this row */
};

struct vain_threads {
	const struct vain *last; /* the thread that came to vain_yields() last */
	uint64_t changed; /* ns: when that was last another one than before; 0: never */
};

static inline void vain_found(struct vain *v)
{
	v->polls = 0;
}

/* Counts an empty poll. True: now vain_yields() is to be asked. */
static inline bool vain_looks(struct vain *v)
{
	return ++v->polls % VAIN_LOOKS == 0;
}

/* True: the thread of @v gives its core away, and its row begins anew. */
bool vain_yields(struct vain *v, struct vain_threads *t, uint64_t now);
