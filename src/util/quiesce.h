// SPDX-License-Identifier: MIT
/* Quiescence: a reader (a thread that runs a QP's turn, looks a key up or touches an application's
 * memory) marks a section; a writer that has unpublished an object waits until every section that
 * might still see it has ended. After quiesce_wait() no thread of this process uses what was
 * unpublished before the call. Sections nest, cost two plain stores and one fence at the outermost
 * level, and must not block on a lock that a waiter may hold: quiesce_wait() is called outside any
 * section and without locks. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "util/barrier.h"

struct quiesce_slot {
	uint64_t seq; /* odd: inside a section (A); written by its thread only */
	unsigned int depth; /* of nested sections */
	struct quiesce_slot *next; /* in the list of all slots */
	int used; /* a thread has it; a thread that ends leaves it to a new one */
};

struct quiesce_slot *quiesce_slot_make(void); /* this thread's, never NULL */
/* In exit(), which a signal handler may call that has interrupted malloc(): a thread without a slot
 * gets the one that is kept for this, since it must not allocate one. */
void quiesce_at_exit(void);
extern __thread struct quiesce_slot *quiesce_self __attribute__((tls_model("initial-exec")));

static inline void quiesce_enter(void)
{
	struct quiesce_slot *s = quiesce_self ? quiesce_self : quiesce_slot_make();

	if (s->depth++)
		return;
	/* pairs with the fence in quiesce_wait(): either the waiter sees the odd number, or we see
	 * what it unpublished */
	__atomic_exchange_n(&s->seq, s->seq + 1, __ATOMIC_SEQ_CST);
	full_fence_after_rmw();
}

/* The same for a caller whose next access to shared memory is a locked read-modify-write: on x86
 * that instruction is the fence, so a plain store is enough here. The memory that the instruction
 * itself touches must be safe without a section. */
static inline void quiesce_enter_by_rmw(void)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	struct quiesce_slot *s = quiesce_self ? quiesce_self : quiesce_slot_make();

	if (!s->depth++)
		__atomic_store_n(&s->seq, s->seq + 1, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
	quiesce_enter();
#endif
}

static inline void quiesce_exit(void)
{
	struct quiesce_slot *s = quiesce_self;

	if (--s->depth)
		return;
	__atomic_store_n(&s->seq, s->seq + 1, __ATOMIC_RELEASE);
}

static inline bool quiesce_inside(void) /* is this thread in a section? */
{
	return quiesce_self && quiesce_self->depth;
}

void quiesce_wait(void);

/* The same for a writer that must not wait, since it is inside a section itself, or has more to do:
 * it asks now and again whether the sections of other threads that were open at quiesce_begin()
 * have ended. Objects that its own section has looked up are not covered. */
enum { QUIESCE_OPEN = 16 };

struct quiesce_grace {
	bool begun; /* quiesce_soon() need not begin it */
	unsigned int n;
	struct {
		struct quiesce_slot *slot;
		uint64_t seq;
	} open[QUIESCE_OPEN];
};

/* False: more than QUIESCE_OPEN sections are open; try again later. */
bool quiesce_begin(struct quiesce_grace *g);
bool quiesce_passed(struct quiesce_grace *g); /* have they ended? once true, it stays true */
/* quiesce_wait() with a limit, outside any section: false when a section lasts, as one does whose
 * thread copies from memory that does not answer; ask again later, with the same @g, at first {0}.
 * True once. */
bool quiesce_soon(struct quiesce_grace *g);
