// SPDX-License-Identifier: MIT
/* Places of target QPs in the page that the members of an XRC domain share. */
#include "xrc/xrc_page.h"
#include <stdlib.h>
#include "test.h"

static struct xrc_page *page;

static void open_page(void)
{
	page = calloc(1, xrc_page_bytes());
	check(page);
}

static uint32_t put(uint32_t qpn)
{
	uint32_t index = 0;

	check(xrc_page_place(page, qpn, &index));
	xrc_page_begin(&page->target[index], qpn);
	return index;
}

static bool is_at(uint32_t qpn, uint32_t where)
{
	uint32_t index = 0;

	return xrc_page_find(page, qpn, &index) == &page->target[where] && index == where;
}

TEST(a_number_stands_at_its_place_or_behind_it)
{
	open_page();
	check_eq(put(17), 17);
	check_eq(put(XRC_TARGETS + 17), 18);
	check_eq(put(2 * XRC_TARGETS + 17), 19);
	check_eq(put(18), 20);
	check(is_at(17, 17));
	check(is_at(XRC_TARGETS + 17, 18));
	check(is_at(2 * XRC_TARGETS + 17, 19));
	check(is_at(18, 20));
	free(page);
}

TEST(the_last_place_leads_round_to_the_first)
{
	open_page();
	check_eq(put(XRC_TARGETS - 1), XRC_TARGETS - 1);
	check_eq(put(2 * XRC_TARGETS - 1), 0);
	check(is_at(2 * XRC_TARGETS - 1, 0));
	free(page);
}

TEST(what_stands_behind_a_gap_is_still_found)
{
	uint32_t index;

	open_page();
	put(5);
	put(XRC_TARGETS + 5);
	page->target[5].qpn = 0; /* destroyed */
	check(is_at(XRC_TARGETS + 5, 6));
	check(!xrc_page_find(page, 5, &index));
	check_eq(put(2 * XRC_TARGETS + 5), 5);
	free(page);
}

TEST(a_full_page_takes_no_more)
{
	uint32_t index;

	open_page();
	for (uint32_t i = 0; i < XRC_TARGETS; i++)
		put(i + 1);
	check(!xrc_page_place(page, 9, &index));
	check(!xrc_page_find(page, XRC_TARGETS + 9, &index));
	page->target[77].qpn = 0;
	check(xrc_page_place(page, 9, &index));
	check_eq(index, 77);
	free(page);
}

/* Another member may have written anything. */
TEST(a_reach_that_is_too_large_is_bounded)
{
	uint32_t index;

	open_page();
	page->reach = UINT32_MAX;
	check(!xrc_page_find(page, 9, &index));
	free(page);
}

TEST(a_new_QP_is_in_RESET_and_known_to_have_moved)
{
	struct xrc_shared *t;

	open_page();
	t = &page->target[put(9)];
	t->state.state = IBV_QPS_RTS;
	t->holders[1] = 7;
	t->died = 3;
	t->qpn = 0;
	check_eq(t->gen, 1);
	check_eq(t->moves, 1);
	put(9);
	check_eq(t->state.state, IBV_QPS_RESET);
	check_eq(t->holders[1], 0);
	check_eq(t->died, 0);
	check_eq(t->gen, 2);
	check_eq(t->moves, 2);
	free(page);
}

TEST(a_new_member_ends_what_a_dead_one_was_in)
{
	const uint32_t me = 100, dead = xrc_page_word(4, 100), other = xrc_page_word(4, 101);
	struct xrc_shared *t, *u;

	open_page();
	t = &page->target[put(9)];
	u = &page->target[put(10)];
	t->state.state = u->state.state = IBV_QPS_RTS;
	t->turn = dead;
	u->turn = other;
	t->holders[1] = u->holders[1] = UINT64_C(3) << 36; /* members 100 and 101 */
	xrc_page_inherit(page, me, dead);
	check_eq(t->state.state, IBV_QPS_ERR);
	check_eq(t->turn, 0);
	check_eq(t->died, dead);
	check_eq(t->moves, 2);
	check_eq(t->holders[1], UINT64_C(1) << 37);
	check_eq(u->state.state, IBV_QPS_RTS);
	check_eq(u->turn, other);
	check_eq(u->moves, 1);
	check_eq(u->holders[1], UINT64_C(1) << 37);
	free(page);
}

TEST(the_first_member_on_a_byte_inherits_nothing)
{
	struct xrc_shared *t;

	open_page();
	t = &page->target[put(9)];
	xrc_page_inherit(page, 0, 0);
	check_eq(t->turn, 0);
	check_eq(t->state.state, IBV_QPS_RESET);
	check_eq(t->moves, 1);
	free(page);
}

TEST(words_differ_between_members_and_generations)
{
	check_ne(xrc_page_word(1, 0), xrc_page_word(2, 0));
	check_ne(xrc_page_word(1, 0), xrc_page_word(1, 1));
	check_ne(xrc_page_word(1, XRC_MEMBERS - 1), xrc_page_word(2, 0));
	check_ne(xrc_page_word(1, 0), 0);
}

RUN_TESTS(unit_test(a_number_stands_at_its_place_or_behind_it),
	  unit_test(the_last_place_leads_round_to_the_first),
	  unit_test(what_stands_behind_a_gap_is_still_found), unit_test(a_full_page_takes_no_more),
	  unit_test(a_reach_that_is_too_large_is_bounded),
	  unit_test(a_new_QP_is_in_RESET_and_known_to_have_moved),
	  unit_test(a_new_member_ends_what_a_dead_one_was_in),
	  unit_test(the_first_member_on_a_byte_inherits_nothing),
	  unit_test(words_differ_between_members_and_generations))
