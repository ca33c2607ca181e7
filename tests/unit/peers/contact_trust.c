// SPDX-License-Identifier: MIT
#include "peers/contact_trust.h"
#include "test.h"

static const struct trust_facts tracer = { 17, true, true, false, true };

TEST(a_contact_is_for_processes_of_the_same_user)
{
	check(trust_contact(1000, 1000));
	check(!trust_contact(1000, 1001));
	check(!trust_contact(0, 1000)); /* root too: its pages are not those of our host */
	check(!trust_contact(1000, 0));
}

TEST(memory_is_for_a_process_that_could_trace_us)
{
	check(trust_memory(TRUST_NO_WORD, &tracer));
	for (int i = 0; i < 5; i++) {
		struct trust_facts f = tracer;

		if (i == 0)
			f.pid = 0;
		if (i == 1)
			f.fds_left = false;
		if (i == 2)
			f.dumpable = false;
		if (i == 3)
			f.yama = true;
		if (i == 4)
			f.same_user_ns = false;
		check(!trust_memory(TRUST_NO_WORD, &f));
	}
}

TEST(the_word_of_the_user_goes_before_but_for_descriptors)
{
	struct trust_facts stranger = { .fds_left = true, .yama = true };

	check(!trust_memory(TRUST_NOBODY, &tracer));
	check(trust_memory(TRUST_EVERYBODY, &stranger));
	stranger.fds_left = false;
	check(!trust_memory(TRUST_EVERYBODY, &stranger));
}

TEST(only_0_and_1_are_words)
{
	check_eq(trust_word(NULL), TRUST_NO_WORD);
	check_eq(trust_word("0"), TRUST_NOBODY);
	check_eq(trust_word("1"), TRUST_EVERYBODY);
	check_eq(trust_word(""), TRUST_NO_WORD);
	check_eq(trust_word("10"), TRUST_NO_WORD);
	check_eq(trust_word("yes"), TRUST_NO_WORD);
}

TEST(a_file_is_for_a_peer_that_has_the_memory)
{
	for (int i = 0; i < 8; i++)
		check_eq(trust_file(i & 1, i & 2, i & 4), i == 7);
}

RUN_TESTS(unit_test(a_contact_is_for_processes_of_the_same_user),
	  unit_test(memory_is_for_a_process_that_could_trace_us),
	  unit_test(the_word_of_the_user_goes_before_but_for_descriptors),
	  unit_test(only_0_and_1_are_words), unit_test(a_file_is_for_a_peer_that_has_the_memory))
