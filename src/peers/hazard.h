// SPDX-License-Identifier: MIT
/* Hazards (docs/design/direct-access.md). Before a process touches another one's memory it writes
 * into its own published page what it is about to use: the owner, and a key or a QP of the owner.
 * Then it looks again whether that is still published. The owner unpublishes first, then waits
 * until no page names the key or QP. So either the owner sees the hazard, or the other process sees
 * that the key or QP is no longer published.
 *
 * A word names {kind, the owner's slot, its generation, number}; 0 is free. Any thread of the
 * page's process sets and clears words; every process reads them. A thread that holds a place waits
 * for no other one: when all threads did, none would ever go on. */
#pragma once
#include "util/barrier.h"

enum { HAZARDS = 64 };
enum hazard_kind { HAZARD_KEY = 1, HAZARD_QP = 2 };

static inline uint64_t hazard_word(enum hazard_kind kind, unsigned int slot, uint32_t gen,
				   uint32_t number)
{
	return (uint64_t)kind << 62 | (uint64_t)(slot & 0x3ff) << 52 |
	       (uint64_t)(gen & 0xfffff) << 32 | number;
}

/* Sets @word in a free place of @page (HAZARDS words, ours), for which it may wait, with a full
 * fence behind it. Returns the place, for hazard_clear(). */
uint64_t *hazard_set(uint64_t *page, uint64_t word);
/* The same for two words, but it never waits. False: there are no two free places, and none is
 * taken. */
bool hazard_set_both(uint64_t *page, const uint64_t word[2], uint64_t *place[2]);
static inline void hazard_clear(uint64_t *place)
{
	store_release(place, 0); /* our accesses are done: pairs with hazard_is_set() */
}

bool hazard_is_set(const uint64_t *page, uint64_t word); /* is @word set somewhere in @page? */
