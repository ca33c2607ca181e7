// SPDX-License-Identifier: MIT
/* Cases that stand alone: each runs in a process of its own, which has opened nothing before, so a
 * crash, an exit(1) or a hang is the failure of that case and of no other. Prints TAP. A case that
 * returns has passed; want() and fail() (peer.h) end it. SOFTHCA_CASES chooses some by globs. */
#pragma once
#include <stdbool.h>
#include "verbs/peer.h"

struct test_case {
	const char *name;
	void (*run)(int arg);
	int arg;
};

#define CASE(f)                                                                                    \
	{                                                                                          \
#f, f, 0                                                                           \
	}
#define CASE_ARG(f, a)                                                                             \
	{                                                                                          \
#f " (" #a ")", f, a                                                               \
	}
#define CASES_RUN(list) cases_run(list, sizeof(list) / sizeof((list)[0]))

int cases_run(const struct test_case *list, size_t n); /* what main() returns */
bool cases_full(void); /* SOFTHCA_LENGTH=full: run at full length */
bool cases_sanitized(void); /* built with a sanitizer: slower and larger */
void case_skip(const char *why) __attribute__((noreturn));

#define want(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fail("%s:%d: not so: %s", __FILE__, __LINE__, #cond);                      \
	} while (0)
#define want_eq(a, b)                                                                              \
	do {                                                                                       \
		long long a_ = (long long)(a), b_ = (long long)(b);                                \
		if (a_ != b_)                                                                      \
			fail("%s:%d: %s is %lld (0x%llx), not %lld (0x%llx)", __FILE__, __LINE__,  \
			     #a, a_, a_, b_, b_);                                                  \
	} while (0)
/* A call that returns an errno, and sets it. */
#define want_errno(call, err)                                                                      \
	do {                                                                                       \
		errno = 0;                                                                         \
		want_eq(call, err);                                                                \
		want_eq(errno, err);                                                               \
	} while (0)
/* A call that returns -1 and errno. */
#define want_minus1(call, err)                                                                     \
	do {                                                                                       \
		errno = 0;                                                                         \
		want_eq(call, -1);                                                                 \
		want_eq(errno, err);                                                               \
	} while (0)
/* A call that returns a pointer, or NULL and errno. */
#define want_null(call, err)                                                                       \
	do {                                                                                       \
		errno = 0;                                                                         \
		want((call) == NULL);                                                              \
		want_eq(errno, err);                                                               \
	} while (0)
