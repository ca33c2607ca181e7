// SPDX-License-Identifier: MIT
/* The streams in error: which, how many, and the limit that can be reached. */
#include "test.h"
#include "dc/dc_streams.h"

TEST(without_streams_the_first_error_is_the_end)
{
	struct dc_streams s = { 0 };

	check(!dc_streams_stop(&s, 0));
	check(!dc_streams_stopped(&s, 0));
	s.most = 1; /* 2^0 */
	check(!dc_streams_stop(&s, 5));
	check(!dc_streams_stopped(&s, 5));
}

TEST(as_many_as_the_limit_end_it)
{
	struct dc_streams s = { .most = 1U << LIMIT_DCI_ERRORED_LOG };

	for (uint32_t i = 1; i < s.most; i++)
		check(dc_streams_stop(&s, (uint16_t)(i * 1000)));
	check(!dc_streams_stop(&s, 7));
	for (uint32_t i = 1; i < s.most; i++)
		check(dc_streams_stopped(&s, (uint16_t)(i * 1000)));
	check(!dc_streams_stopped(&s, 7));
}

TEST(a_reset_ends_one)
{
	struct dc_streams s = { .most = 4 };

	check(dc_streams_stop(&s, 1));
	check(dc_streams_stop(&s, 2));
	check(dc_streams_stop(&s, 3));
	check(!dc_streams_reset(&s, 9));
	check_eq(s.n, 3);
	check(dc_streams_reset(&s, 1));
	check(!dc_streams_stopped(&s, 1));
	check(dc_streams_stopped(&s, 2) && dc_streams_stopped(&s, 3));
	check(dc_streams_stop(&s, 1));
	dc_streams_reset(&s, 1);
	dc_streams_reset(&s, 2);
	dc_streams_reset(&s, 3);
	check_eq(s.n, 0);
}

RUN_TESTS(unit_test(without_streams_the_first_error_is_the_end),
	  unit_test(as_many_as_the_limit_end_it), unit_test(a_reset_ends_one))
