// SPDX-License-Identifier: MIT
/* Is a signal handler that has interrupted this program told from all else? Here the program is
 * what the library is in a program: its file. */
#include <pthread.h>
#include <signal.h>
#include "test.h"
#include "util/reentry.h"

static int seen;

static void handler(int sig)
{
	(void)sig;
	seen = reentry_inside();
}

TEST(a_handler_that_interrupts_us_is_seen)
{
	struct sigaction a = { .sa_handler = handler };

#ifdef __SANITIZE_THREAD__ /* it calls handlers itself, later */
	skip();
#endif
	seen = -1;
	check_eq(sigaction(SIGUSR1, &a, NULL), 0);
	check_eq(raise(SIGUSR1), 0);
	check_eq(seen, 1);
}

static void once(void)
{
	seen = reentry_inside();
}

/* From us to the C library and back, without a signal. */
TEST(a_function_that_is_called_back_is_none)
{
	pthread_once_t control = PTHREAD_ONCE_INIT;

	seen = -1;
	check_eq(pthread_once(&control, once), 0);
	check_eq(seen, 0);
}

TEST(a_short_wait_does_not_look)
{
	struct reentry r = { 0 };

	reentry_look(&r);
	check(r.since && r.since != UINT64_MAX);
}

RUN_TESTS(unit_test(a_handler_that_interrupts_us_is_seen),
	  unit_test(a_function_that_is_called_back_is_none), unit_test(a_short_wait_does_not_look))
