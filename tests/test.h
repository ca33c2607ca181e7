// SPDX-License-Identifier: MIT
/* TEST and check_*: thin macros over cmocka. A test program lists its tests once, in RUN_TESTS:
 *
 *	TEST(parse_rejects_every_truncation) { check_eq(f(), 0); }
 *	RUN_TESTS(unit_test(parse_rejects_every_truncation))
 *
 * Exit codes: 0 passed, 1 failed, 77 skipped (skip_all()). */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#define TEST(name)	   static void name(void **state_ __attribute__((unused)))
#define check(cond)	   assert_true(cond)
#define check_eq(a, b)	   assert_int_equal((uint64_t)(a), (uint64_t)(b))
#define check_ne(a, b)	   assert_int_not_equal((uint64_t)(a), (uint64_t)(b))
#define check_mem(a, b, n) assert_memory_equal(a, b, n)
#define check_str(a, b)	   assert_string_equal(a, b)
/* The condition of a loop that waits: a test says which wait has not ended, and those after it wait
 * less. For one thread, of the process that runs the tests. */
#define still(cond) ((cond) ? still_in_time(#cond, __FILE__, __LINE__) : still_over())
#undef unit_test /* the name of a deprecated macro of cmocka */
#define unit_test(f) cmocka_unit_test(f)

#define RUN_TESTS(...)                                                                             \
	int main(void)                                                                             \
	{                                                                                          \
		const struct CMUnitTest tests[] = { __VA_ARGS__ };                                 \
		setvbuf(stdout, NULL, _IOLBF, 0); /* of a test that hangs all lines are seen */    \
		return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;                          \
	}

static inline void skip_all(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(77);
}

static const char *still_what;
static time_t still_since, still_most = 30; /* s: a busy machine may do nothing for long */

static inline bool still_in_time(const char *what, const char *file, int line)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (still_what != what) {
		still_what = what;
		still_since = now.tv_sec;
	}
	if (now.tv_sec - still_since > still_most) {
		still_what = NULL;
		still_most = 1;
		print_error("it lasts: %s\n", what);
		_fail(file, line);
	}
	return true;
}

static inline bool still_over(void)
{
	still_what = NULL;
	return false;
}
