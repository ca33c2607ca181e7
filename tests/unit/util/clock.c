// SPDX-License-Identifier: MIT
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "test.h"
#include "util/clock.h"

enum { TRIES = 200, NEAR_NS = 5000 };

static uint64_t kernel_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* The smallest distance of clock_now() from the interval that two kernel readings leave it; being
 * put off the core between them only widens the interval. */
static uint64_t distance(void)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = kernel_now(), now = clock_now(), after = kernel_now(), d = 0;

		if (now < before)
			d = before - now;
		else if (now > after)
			d = now - after;
		if (after - before < NEAR_NS && d < best)
			best = d;
	}
	return best;
}

/* Through the kernel's first 10 ms and several lines after it. */
TEST(agrees_with_the_kernel_within_a_microsecond)
{
	uint64_t until = kernel_now() + 150000000;

	do
		check(distance() <= 1000);
	while (kernel_now() < until);
}

TEST(never_goes_back_in_a_thread)
{
	uint64_t until = kernel_now() + 100000000, last = clock_now(), now;

	do {
		now = clock_now();
		check(now >= last);
		last = now;
	} while (now < until);
}

TEST(goes_on_in_a_forked_child)
{
	uint64_t before = clock_now();
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(clock_now() >= before && distance() <= 1000 ? 0 : 1);
	check_eq(waitpid(pid, &status, 0), pid);
	check_eq(status, 0);
}

RUN_TESTS(unit_test(agrees_with_the_kernel_within_a_microsecond),
	  unit_test(never_goes_back_in_a_thread), unit_test(goes_on_in_a_forked_child))
