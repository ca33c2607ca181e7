// SPDX-License-Identifier: MIT
#include "peers/contact_trust.h"
#include "test.h"

TEST(a_process_of_another_user_is_a_stranger)
{
	check(!trust_stranger(1000, 1000, false, false));
	check(trust_stranger(1000, 1001, false, false));
	check(trust_stranger(0, 1000, false, false)); /* root too */
	check(trust_stranger(1000, 0, false, false));
}

TEST(one_of_a_crowd_is_a_stranger_unless_we_may_look_into_it)
{
	check(trust_stranger(65534, 65534, true, false));
	check(!trust_stranger(65534, 65534, true, true));
	check(!trust_stranger(65534, 65534, false, false));
	check(trust_stranger(1000, 65534, true, true)); /* root of a namespace sees all in it */
}

/* Descriptors limit before places do, but for a process that may have very many. */
TEST(strangers_have_half_of_the_places_and_a_quarter_of_the_descriptors)
{
	struct trust_limits most = trust_limits(1024, 1024);

	check_eq(2 * most.all.contacts, 1024 / 4); /* two descriptors each */
	check_eq(most.each.contacts, most.all.contacts / 2);
	check_eq(most.all.pending, 32);
	check_eq(most.each.pending, 8);
	most = trust_limits(1024, UINT64_MAX);
	check_eq(most.all.contacts, 1024 / 2);
	check_eq(most.each.contacts, 1024 / 4);
	check_eq(most.all.pending, 128);
	check_eq(most.each.pending, 32);
	most = trust_limits(1024, 0);
	check_eq(most.all.contacts, 1);
	check_eq(most.each.pending, 1);
}

static bool admits(uint32_t all, uint32_t all_pending, uint32_t each, uint32_t each_pending)
{
	const struct trust_limits most = { { 128, 32 }, { 64, 8 } },
				  taken = { { all, all_pending }, { each, each_pending } };

	return trust_admits(&taken, &most, false);
}

TEST(strangers_get_no_more_than_all_and_each_may_have)
{
	check(admits(0, 0, 0, 0));
	check(admits(127, 31, 63, 7));
	check(!admits(128, 31, 63, 7));
	check(!admits(127, 32, 63, 7));
	check(!admits(127, 31, 64, 7));
	check(!admits(127, 31, 63, 8));
}

TEST(what_our_program_asks_for_is_bound_by_the_share_of_all_only)
{
	const struct trust_limits most = { { 128, 32 }, { 64, 8 } };
	struct trust_limits taken = { { 127, 31 }, { 64, 8 } };

	check(trust_admits(&taken, &most, true));
	taken.all.pending = 32;
	check(!trust_admits(&taken, &most, true));
	taken.all = (struct trust_share){ 128, 31 };
	check(!trust_admits(&taken, &most, true));
}

TEST(a_stranger_has_the_slot_whose_name_it_has_bound)
{
	struct trust_name peer = { .pid = 17, .uid = 1001, .stranger = true }, owner = peer;

	check_eq(trust_slot(&peer, &owner), TRUST_CLAIM_TRUE);
	owner.pid = 18;
	check_eq(trust_slot(&peer, &owner), TRUST_CLAIM_FALSE);
	owner = (struct trust_name){ .pid = 17, .uid = 1000 };
	check_eq(trust_slot(&peer, &owner), TRUST_CLAIM_FALSE);
}

TEST(so_has_a_process_of_our_user)
{
	struct trust_name peer = { .pid = 17, .uid = 1000 }, owner = peer;

	check_eq(trust_slot(&peer, &owner), TRUST_CLAIM_TRUE);
	owner.uid = 0; /* it has bound the name as root, before it became us */
	check_eq(trust_slot(&peer, &owner), TRUST_CLAIM_TRUE);
	owner.pid = 18;
	check_eq(trust_slot(&peer, &owner), TRUST_CLAIM_FALSE);
}

TEST(whose_pid_is_not_visible_has_to_be_asked)
{
	struct trust_name peer = { .uid = 1000 }, owner = peer;

	check_eq(trust_slot(&peer, &owner), TRUST_CLAIM_UNSEEN);
	owner.pid = 17;
	check_eq(trust_slot(&peer, &owner), TRUST_CLAIM_FALSE);
	owner.pid = 0;
	peer.stranger = owner.stranger = true;
	check_eq(trust_slot(&peer, &owner), TRUST_CLAIM_UNSEEN);
	owner.uid = 1001;
	check_eq(trust_slot(&peer, &owner), TRUST_CLAIM_FALSE);
}

TEST(a_stranger_passes_nothing_on)
{
	check(trust_segment(&(struct seg){ .op = 4 }));
	check(trust_segment(&(struct seg){ .op = 4, .flags = SEG_ACK | SEG_SOLICITED }));
	check(!trust_segment(&(struct seg){ .op = 4, .flags = SEG_NET }));
	check(!trust_segment(&(struct seg){ .op = 4, .flags = SEG_MCAST }));
	check(!trust_segment(&(struct seg){ .op = FRAME_OP }));
	check(!trust_segment(&(struct seg){ .op = 4, .damaged = true }));
}

/* A pid is used again: only what a living process has said, or the kernel of the connection itself,
 * names the peer. */
TEST(a_pid_names_the_peer_when_the_kernel_has_vouched_for_it)
{
	struct trust_name n = { .pid = 17, .shown = 3, .watched = true, .exact = true };

	check(trust_name(&n));
	n.exact = false;
	check(!trust_name(&n));
	n.answered = 18;
	check(!trust_name(&n));
	n.answered = 17;
	check(trust_name(&n));
	n.watched = false;
	check(!trust_name(&n));
	n.watched = true;
	n.shown = 0; /* it is not in the /proc that is mounted here */
	check(!trust_name(&n));
	n = (struct trust_name){ .pid = 0, .shown = 3, .watched = true, .exact = true };
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
	  unit_test(one_of_a_crowd_is_a_stranger_unless_we_may_look_into_it),
	  unit_test(strangers_have_half_of_the_places_and_a_quarter_of_the_descriptors),
	  unit_test(strangers_get_no_more_than_all_and_each_may_have),
	  unit_test(what_our_program_asks_for_is_bound_by_the_share_of_all_only),
	  unit_test(a_stranger_has_the_slot_whose_name_it_has_bound),
	  unit_test(so_has_a_process_of_our_user),
	  unit_test(whose_pid_is_not_visible_has_to_be_asked),
	  unit_test(a_stranger_passes_nothing_on),
	  unit_test(a_pid_names_the_peer_when_the_kernel_has_vouched_for_it),
	  unit_test(the_word_of_the_user_offers_and_lends), unit_test(a_proof_is_the_secret_itself),
	  unit_test(only_0_and_1_are_words), unit_test(a_file_is_for_a_peer_of_mutual_access))
