// SPDX-License-Identifier: MIT
#include "util/quiesce.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include "util/log.h"
#include "util/uncancelled.h"

enum { RESERVE = 16, LINE = 64, SAID_AFTER_MS = 1000, YIELDS = 100 };

/* Slots are never freed: a thread that ends leaves its slot to the next new thread. */
static struct quiesce_slot *slots; /* lock-free push-only list */
static struct {
	struct quiesce_slot slot;
} __attribute__((aligned(LINE))) reserve[RESERVE]; /* for threads that find no memory */
static struct quiesce_slot of_exit __attribute__((aligned(LINE))); /* for the thread in exit() */
static unsigned int n_reserved; /* atomic; may exceed RESERVE */
static pthread_key_t key;
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

__thread struct quiesce_slot *quiesce_self __attribute__((tls_model("initial-exec")));

static void slot_release(void *p)
{
	struct quiesce_slot *s = p;

	quiesce_self = NULL;
	__atomic_store_n(&s->used, 0, __ATOMIC_RELEASE);
}

/* In a child only the forking thread lives on: sections of other threads never end by
 * themselves. */
static void child_reset(void)
{
	for (struct quiesce_slot *s = slots; s; s = s->next) {
		if (s == quiesce_self)
			continue;
		s->seq &= ~1ULL;
		s->depth = 0;
		s->used = 0;
	}
}

/* Without a key a thread that ends keeps its slot. Without child_reset() a child could wait for
 * ever, so that one waits for memory. */
static void key_make(void)
{
	has_key = !pthread_key_create(&key, slot_release);
	while (pthread_atfork(NULL, NULL, child_reset))
		sched_yield();
}

static struct quiesce_slot *slot_reuse(void)
{
	for (struct quiesce_slot *s = load_acquire(&slots); s; s = s->next) {
		int unused = 0;

		if (__atomic_compare_exchange_n(&s->used, &unused, 1, 0, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return s;
	}
	return NULL;
}

static void slot_list(struct quiesce_slot *s)
{
	s->next = __atomic_load_n(&slots, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&slots, &s->next, s, 1, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

/* NULL: there is no memory, and the reserve is used up. */
static struct quiesce_slot *slot_new(void)
{
	struct quiesce_slot *s = aligned_alloc(LINE, LINE);
	unsigned int i;

	if (!s && load_relaxed(&n_reserved) < RESERVE) {
		i = fetch_add_relaxed(&n_reserved, 1);
		s = i < RESERVE ? &reserve[i].slot : NULL;
	}
	if (!s)
		return NULL;
	*s = (struct quiesce_slot){ .used = 1 };
	slot_list(s);
	return s;
}

/* A section cannot be refused: its thread waits for memory, or for a thread that ends. */
struct quiesce_slot *quiesce_slot_make(void)
{
	struct quiesce_slot *s;

	pthread_once(&once, key_make);
	while (!(s = slot_reuse()) && !(s = slot_new()))
		sched_yield();
	if (has_key)
		pthread_setspecific(key, s);
	quiesce_self = s;
	return s;
}

/* A child that was forked during exit() may find the slot listed, and in use. */
void quiesce_at_exit(void)
{
	static bool listed; /* of_exit's user alone writes it */
	int unused = 0;

	if (quiesce_self || !__atomic_compare_exchange_n(&of_exit.used, &unused, 1, 0,
							 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	if (!listed)
		slot_list(&of_exit);
	listed = true;
	quiesce_self = &of_exit;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Somebody who looks why a call does not return gets a hint; a thread that has no core for a second
 * is no reason for a warning. */
static void waited(int64_t since)
{
	if (now_ms() - since >= SAID_AFTER_MS)
		log_info_once("a call waits until a thread of this process ends its access to a "
			      "peer's memory or a queue pair; the memory may not answer, or the "
			      "thread has no core");
}

static void wait_for(struct quiesce_slot *s)
{
	int64_t since = 0;
	uint64_t seen = load_acquire(&s->seq);
	int was = uncancelled_begin();

	for (unsigned int n = 0; (seen & 1) && load_acquire(&s->seq) == seen; n++) {
		if (n < YIELDS) {
			sched_yield();
			continue;
		}
		since = since ? since : now_ms();
		waited(since);
		nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
	}
	uncancelled_end(was);
}

void quiesce_wait(void)
{
	full_fence(); /* pairs with quiesce_enter() */
	for (struct quiesce_slot *s = load_acquire(&slots); s; s = s->next)
		if (s != quiesce_self)
			wait_for(s);
}

bool quiesce_begin(struct quiesce_grace *g)
{
	g->begun = false;
	g->n = 0;
	full_fence(); /* pairs with quiesce_enter() */
	for (struct quiesce_slot *s = load_acquire(&slots); s; s = s->next) {
		uint64_t seq = load_acquire(&s->seq);

		if (s == quiesce_self || !(seq & 1))
			continue;
		if (g->n == QUIESCE_OPEN)
			return false;
		g->open[g->n].slot = s;
		g->open[g->n++].seq = seq;
	}
	g->begun = true;
	return true;
}

bool quiesce_passed(struct quiesce_grace *g)
{
	while (g->n && load_acquire(&g->open[g->n - 1].slot->seq) != g->open[g->n - 1].seq)
		g->n--;
	return !g->n;
}

bool quiesce_soon(struct quiesce_grace *g)
{
	for (unsigned int n = g->begun ? YIELDS : 0; n <= YIELDS; n++) {
		if ((g->begun || quiesce_begin(g)) && quiesce_passed(g)) {
			g->begun = false;
			return true;
		}
		sched_yield();
	}
	return false;
}
