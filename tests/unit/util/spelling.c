// SPDX-License-Identifier: MIT
#include "test.h"
#include "util/spelling.h"

static const char *const words[] = { "loss", "delay", "reorder", "qp", NULL };

TEST(the_nearest_word_is_found)
{
	check_str(spelling_nearest("loss", words), "loss");
	check_str(spelling_nearest("lsos", words), "loss");
	check_str(spelling_nearest("dela", words), "delay");
	check_str(spelling_nearest("recorders", words), "reorder");
	check_str(spelling_nearest("qp", words), "qp");
}

TEST(what_resembles_nothing_is_nothing)
{
	check(!spelling_nearest("", words));
	check(!spelling_nearest("q", words));
	check(!spelling_nearest("lo", words));
	check(!spelling_nearest("recorded it", words));
	check(!spelling_nearest("delaydelaydelaydelaydelay", words));
}

RUN_TESTS(unit_test(the_nearest_word_is_found), unit_test(what_resembles_nothing_is_nothing))
