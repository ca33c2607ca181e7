// SPDX-License-Identifier: MIT
#include "peers/contact_trust.h"
#include "test.h"

TEST(a_contact_is_for_processes_of_the_same_user)
{
	check(trust_contact(1000, 1000));
	check(!trust_contact(1000, 1001));
	check(!trust_contact(0, 1000)); /* root too: its pages are not those of our host */
	check(!trust_contact(1000, 0));
}

/* A pid is used again: only what a living process has said, or the kernel of the connection itself,
 * names the peer. */
TEST(a_pid_names_the_peer_when_the_kernel_has_vouched_for_it)
{
	struct trust_name n = { .pid = 17, .watched = true, .exact = true };

	check(trust_name(&n));
	n.exact = false;
	check(!trust_name(&n));
	n.answered = 18;
	check(!trust_name(&n));
	n.answered = 17;
	check(trust_name(&n));
	n.watched = false;
	check(!trust_name(&n));
	n = (struct trust_name){ .pid = 0, .watched = true, .exact = true };
	check(!trust_name(&n));
	n.exact = false; /* of another pid namespace, as its messages are: both say 0 */
	check(!trust_name(&n));
}

TEST(the_word_of_the_user_offers_and_lends)
{
	check(trust_offer(TRUST_NO_WORD) && !trust_lend(TRUST_NO_WORD));
	check(!trust_offer(TRUST_NOBODY) && !trust_lend(TRUST_NOBODY));
	check(trust_offer(TRUST_EVERYBODY) && trust_lend(TRUST_EVERYBODY));
}

TEST(a_proof_is_the_secret_itself)
{
	check(trust_proof(7, 7));
	check(!trust_proof(8, 7));
	check(!trust_proof(0, 7));
	check(!trust_proof(0, 0));
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

TEST(a_file_is_for_a_peer_of_mutual_access)
{
	for (int i = 0; i < 8; i++)
		check_eq(trust_file(i & 1, i & 2, i & 4), i == 7);
}

RUN_TESTS(unit_test(a_contact_is_for_processes_of_the_same_user),
	  unit_test(a_pid_names_the_peer_when_the_kernel_has_vouched_for_it),
	  unit_test(the_word_of_the_user_offers_and_lends), unit_test(a_proof_is_the_secret_itself),
	  unit_test(only_0_and_1_are_words), unit_test(a_file_is_for_a_peer_of_mutual_access))
