// SPDX-License-Identifier: MIT
/* TEST and check_*: thin macros over cmocka. A test program lists its tests once, in RUN_TESTS:
 *
 *	TEST(parse_rejects_every_truncation) { check_eq(f(), 0); }
 *	RUN_TESTS(unit_test(parse_rejects_every_truncation))
 *
 * Exit codes: 0 passed, 1 failed, 77 skipped (skip_all()). */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define TEST(name)	   static void name(void **state_ __attribute__((unused)))
#define check(cond)	   assert_true(cond)
#define check_eq(a, b)	   assert_int_equal((uint64_t)(a), (uint64_t)(b))
#define check_ne(a, b)	   assert_int_not_equal((uint64_t)(a), (uint64_t)(b))
#define check_mem(a, b, n) assert_memory_equal(a, b, n)
#define check_str(a, b)	   assert_string_equal(a, b)
#undef unit_test /* the name of a deprecated macro of cmocka */
#define unit_test(f) cmocka_unit_test(f)

#define RUN_TESTS(...)                                                                             \
	int main(void)                                                                             \
	{                                                                                          \
		const struct CMUnitTest tests[] = { __VA_ARGS__ };                                 \
		return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;                          \
	}

static inline void skip_all(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(77);
}
