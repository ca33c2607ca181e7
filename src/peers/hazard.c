// SPDX-License-Identifier: MIT
#include "peers/hazard.h"
#include <sched.h>

enum { WORDS_PER_LINE = 8 };

/* Each thread begins at a line of its own. */
static unsigned int first_place(void)
{
	static uint32_t threads;
	/* 1 + number */
	static __thread uint32_t mine __attribute__((tls_model("initial-exec")));

	if (!mine)
		mine = 1 + fetch_add_relaxed(&threads, 1);
	return (mine - 1) * WORDS_PER_LINE % HAZARDS;
}

/* NULL: no place is free. */
static uint64_t *take(uint64_t *page, uint64_t word)
{
	unsigned int first = first_place();

	for (unsigned int i = 0; i < HAZARDS; i++) {
		uint64_t *place = &page[(first + i) % HAZARDS], none = 0;

		if (!load_relaxed(place) &&
		    __atomic_compare_exchange_n(place, &none, word, false, __ATOMIC_SEQ_CST,
						__ATOMIC_RELAXED)) {
			/* before the second look: pairs with the owner's */
			full_fence_after_rmw();
			return place;
		}
	}
	return NULL;
}

uint64_t *hazard_set(uint64_t *page, uint64_t word)
{
	uint64_t *place;

	while (!(place = take(page, word)))
		sched_yield();
	return place;
}

bool hazard_set_both(uint64_t *page, const uint64_t word[2], uint64_t *place[2])
{
	place[0] = take(page, word[0]);
	if (!place[0])
		return false;
	place[1] = take(page, word[1]);
	if (!place[1])
		hazard_clear(place[0]);
	return place[1];
}

bool hazard_is_set(const uint64_t *page, uint64_t word)
{
	for (unsigned int i = 0; i < HAZARDS; i++)
		if (load_acquire(&page[i]) == word) /* pairs with hazard_clear() */
			return true;
	return false;
}
