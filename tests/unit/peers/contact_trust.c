// SPDX-License-Identifier: MIT
#include "peers/contact_trust.h"
#include "test.h"

TEST(a_process_of_another_user_is_a_stranger)
{
	check(!trust_stranger(1000, 1000));
	check(trust_stranger(1000, 1001));
	check(trust_stranger(0, 1000)); /* root too */
	check(trust_stranger(1000, 0));
}

TEST(a_stranger_has_the_slot_whose_name_it_has_bound)
{
	struct trust_name peer = { .pid = 17, .uid = 1001, .stranger = true }, owner = peer;

	check(trust_slot(&peer, &owner));
	owner.pid = 18;
	check(!trust_slot(&peer, &owner));
	owner = (struct trust_name){ .pid = 17, .uid = 1000 };
	check(!trust_slot(&peer, &owner));
	peer = (struct trust_name){ .pid = 17, .uid = 1000 };
	owner.pid = 18;
	check(trust_slot(&peer, &owner)); /* of our own user */
}

TEST(a_stranger_passes_nothing_on)
{
	check(trust_segment(&(struct seg){ .op = 4 }));
	check(trust_segment(&(struct seg){ .op = 4, .flags = SEG_ACK | SEG_SOLICITED }));
	check(!trust_segment(&(struct seg){ .op = 4, .flags = SEG_NET }));
	check(!trust_segment(&(struct seg){ .op = 4, .flags = SEG_MCAST }));
	check(!trust_segment(&(struct seg){ .op = FRAME_OP }));
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

RUN_TESTS(unit_test(a_process_of_another_user_is_a_stranger),
	  unit_test(a_stranger_has_the_slot_whose_name_it_has_bound),
	  unit_test(a_stranger_passes_nothing_on),
	  unit_test(a_pid_names_the_peer_when_the_kernel_has_vouched_for_it),
	  unit_test(the_word_of_the_user_offers_and_lends), unit_test(a_proof_is_the_secret_itself),
	  unit_test(only_0_and_1_are_words), unit_test(a_file_is_for_a_peer_of_mutual_access))
