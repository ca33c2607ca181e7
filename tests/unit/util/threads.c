// SPDX-License-Identifier: MIT
/* What is shared between threads: the spin lock excludes, the last reference is last, the clock of
 * one thread is not behind what another read before. */
#include <pthread.h>
#include "test.h"
#include "util/clock.h"
#include "util/ref.h"
#include "util/spin.h"

enum { THREADS = 3, ROUNDS = 20000 };

static struct spin lock;
static long guarded; /* by lock */
static struct ref ref;
static int lasts;
static uint64_t handed; /* a time, by lock */
static bool went_back;

static void run(void *(*f)(void *))
{
	pthread_t t[THREADS];

	for (int i = 0; i < THREADS; i++)
		check_eq(pthread_create(&t[i], NULL, f, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		check_eq(pthread_join(t[i], NULL), 0);
}

static void *count(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		spin_lock(&lock);
		guarded++;
		spin_unlock(&lock);
	}
	return arg;
}

TEST(spin_lock_excludes)
{
	spin_init(&lock);
	run(count);
	check_eq(guarded, THREADS * ROUNDS);
}

TEST(trylock_fails_exactly_while_held)
{
	spin_init(&lock);
	check(spin_trylock(&lock));
	check(!spin_trylock(&lock));
	spin_unlock(&lock);
	check(spin_trylock(&lock));
	spin_unlock(&lock);
}

static void *get_and_put(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (!ref_get_unless_zero(&ref))
			break;
		if (ref_put(&ref))
			fetch_add_relaxed(&lasts, 1);
	}
	if (ref_put(&ref))
		fetch_add_relaxed(&lasts, 1);
	return arg;
}

TEST(exactly_one_put_is_the_last)
{
	ref_init(&ref);
	for (int i = 1; i < THREADS; i++)
		ref_get(&ref);
	run(get_and_put);
	check_eq(lasts, 1);
	check_eq(ref_count(&ref), 0);
	check(!ref_get_unless_zero(&ref));
}

static void *pass_the_time(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		spin_lock(&lock);
		uint64_t now = clock_now();

		if (now + 1000 < handed) /* what two calibrations may differ by */
			went_back = true;
		handed = now;
		spin_unlock(&lock);
	}
	return arg;
}

TEST(time_passed_between_threads_goes_forward)
{
	uint64_t until = clock_now() + 50000000; /* several calibrations */

	spin_init(&lock);
	do
		run(pass_the_time);
	while (clock_now() < until);
	check(!went_back);
}

RUN_TESTS(unit_test(spin_lock_excludes), unit_test(trylock_fails_exactly_while_held),
	  unit_test(exactly_one_put_is_the_last),
	  unit_test(time_passed_between_threads_goes_forward))
