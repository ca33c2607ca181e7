// SPDX-License-Identifier: MIT
#include "peers/hazard.h"
#include "test.h"

TEST(every_part_of_a_word_tells_hazards_apart)
{
	uint64_t w = hazard_word(HAZARD_KEY, 5, 77, 0x1a03);

	check_ne(w, hazard_word(HAZARD_QP, 5, 77, 0x1a03));
	check_ne(w, hazard_word(HAZARD_KEY, 6, 77, 0x1a03));
	check_ne(w, hazard_word(HAZARD_KEY, 5, 78, 0x1a03));
	check_ne(w, hazard_word(HAZARD_KEY, 5, 77, 0x1a04));
	check_ne(hazard_word(HAZARD_KEY, 0, 0, 0), 0);
	check_ne(hazard_word(HAZARD_KEY, 1023, 0xfffff, UINT32_MAX),
		 hazard_word(HAZARD_QP, 1023, 0xfffff, UINT32_MAX));
}

TEST(a_hazard_is_held_from_set_to_clear_in_any_number)
{
	static uint64_t page[HAZARDS];
	uint64_t *place[HAZARDS], word[HAZARDS];

	for (unsigned int i = 0; i < HAZARDS; i++) {
		word[i] = hazard_word(HAZARD_KEY, i, 1, i / 2);
		check(!hazard_is_set(page, word[i]));
		place[i] = hazard_set(page, word[i]);
	}
	for (unsigned int i = 0; i < HAZARDS; i++) {
		check(hazard_is_set(page, word[i]));
		hazard_clear(place[i]);
		check(!hazard_is_set(page, word[i]));
	}
}

TEST(the_same_word_twice_is_held_until_both_are_cleared)
{
	static uint64_t page[HAZARDS];
	uint64_t w = hazard_word(HAZARD_QP, 1, 2, 3);
	uint64_t *a = hazard_set(page, w), *b = hazard_set(page, w);

	hazard_clear(a);
	check(hazard_is_set(page, w));
	hazard_clear(b);
	check(!hazard_is_set(page, w));
}

/* A thread that waited for the second place while it holds the first would keep it from others that
 * wait likewise. */
TEST(two_hazards_are_set_at_once_or_none)
{
	static uint64_t page[HAZARDS];
	const uint64_t both[2] = { hazard_word(HAZARD_QP, 1, 2, 3),
				   hazard_word(HAZARD_KEY, 1, 2, 3) };
	uint64_t other = hazard_word(HAZARD_KEY, 4, 5, 6), *place[2], *taken[HAZARDS];

	for (unsigned int i = 0; i < HAZARDS; i++)
		taken[i] = hazard_set(page, other);
	check(!hazard_set_both(page, both, place)); /* none is free */
	hazard_clear(taken[0]);
	check(!hazard_set_both(page, both, place)); /* one */
	check(!hazard_is_set(page, both[0]) && !hazard_is_set(page, both[1]));
	hazard_clear(taken[1]);
	check(hazard_set_both(page, both, place)); /* two */
	check_eq(*place[0], both[0]);
	check_eq(*place[1], both[1]);
}

RUN_TESTS(unit_test(every_part_of_a_word_tells_hazards_apart),
	  unit_test(a_hazard_is_held_from_set_to_clear_in_any_number),
	  unit_test(the_same_word_twice_is_held_until_both_are_cleared),
	  unit_test(two_hazards_are_set_at_once_or_none))
