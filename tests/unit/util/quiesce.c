// SPDX-License-Identifier: MIT
/* Looking, without waiting, whether the sections that were open have ended: those of other threads
 * count, those that begin later do not. Waiting for them, of which the log says that it lasts. */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>
#include "test.h"
#include "util/quiesce.h"

enum { MANY = QUIESCE_OPEN + 1 };

static sem_t inside[MANY], leave[MANY], left[MANY];

static void *reader(void *arg)
{
	long i = (long)(intptr_t)arg;

	quiesce_enter();
	sem_post(&inside[i]);
	sem_wait(&leave[i]);
	quiesce_exit();
	sem_post(&left[i]);
	sem_wait(&leave[i]);
	quiesce_enter();
	sem_post(&inside[i]);
	sem_wait(&leave[i]);
	quiesce_exit();
	return NULL;
}

static void go_on(long i, sem_t *until)
{
	sem_post(&leave[i]);
	sem_wait(until);
}

static void starts(pthread_t *t, long i)
{
	sem_init(&inside[i], 0, 0);
	sem_init(&leave[i], 0, 0);
	sem_init(&left[i], 0, 0);
	check_eq(pthread_create(t, NULL, reader, (void *)(intptr_t)i), 0);
	sem_wait(&inside[i]);
}

static void ends(pthread_t t, long i)
{
	sem_post(&leave[i]);
	sem_post(&leave[i]);
	check_eq(pthread_join(t, NULL), 0);
}

TEST(a_grace_has_passed_when_the_sections_that_were_open_have_ended)
{
	struct quiesce_grace g, more;
	pthread_t t[MANY];

	for (long i = 0; i < MANY; i++)
		starts(&t[i], i);
	quiesce_enter(); /* this thread's own does not count */
	check(!quiesce_begin(&g)); /* too many */
	go_on(0, &left[0]);
	check(quiesce_begin(&g));
	check(!quiesce_passed(&g));
	for (long i = 1; i < MANY; i++) {
		check(!quiesce_passed(&g));
		go_on(i, &left[i]);
	}
	check(quiesce_passed(&g));
	go_on(0, &inside[0]); /* a section that is new */
	check(quiesce_passed(&g));
	check(quiesce_begin(&more));
	check(!quiesce_passed(&more));
	sem_post(&leave[0]);
	check_eq(pthread_join(t[0], NULL), 0);
	check(quiesce_passed(&more));
	quiesce_exit();
	for (long i = 1; i < MANY; i++)
		ends(t[i], i);
}

/* Those that begin later do not count; afterwards the same grace serves again. */
TEST(a_section_that_lasts_is_not_waited_for)
{
	struct quiesce_grace g = { 0 };
	pthread_t t[2];

	check(quiesce_soon(&g));
	starts(&t[0], 0);
	for (int i = 0; i < 3; i++)
		check(!quiesce_soon(&g));
	starts(&t[1], 1);
	go_on(0, &left[0]);
	check(quiesce_soon(&g));
	check(!quiesce_soon(&g)); /* the second one, now */
	go_on(1, &left[1]);
	check(quiesce_soon(&g));
	ends(t[0], 0);
	ends(t[1], 1);
}

/* More sections than a grace can name: it begins when there are fewer. */
TEST(a_grace_begins_when_few_enough_sections_are_open)
{
	struct quiesce_grace g = { 0 };
	pthread_t t[MANY];

	for (long i = 0; i < MANY; i++)
		starts(&t[i], i);
	check(!quiesce_soon(&g));
	for (long i = 0; i < MANY; i++) {
		check(!quiesce_soon(&g));
		go_on(i, &left[i]);
	}
	check(quiesce_soon(&g));
	for (long i = 0; i < MANY; i++)
		ends(t[i], i);
}

/* --- without memory --- */

enum { HUNGRY = 40 };

static int out_of_memory, asked; /* atomic */

/* In place of the C library's, for quiesce.c. */
void *aligned_alloc(size_t align, size_t n)
{
	void *p = NULL;

	__atomic_store_n(&asked, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&out_of_memory, __ATOMIC_RELAXED) || posix_memalign(&p, align, n))
		return NULL;
	return p;
}

static void *hungry(void *arg)
{
	(void)arg;
	quiesce_enter();
	sem_post(&inside[0]);
	sem_wait(&leave[0]);
	quiesce_exit();
	return NULL;
}

/* More threads than there are slots: each enters, if need be when another one has ended. */
TEST(sections_begin_without_memory)
{
	pthread_t t[HUNGRY];

	sem_init(&inside[0], 0, 0);
	sem_init(&leave[0], 0, 0);
	__atomic_store_n(&out_of_memory, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < HUNGRY; i++)
		check_eq(pthread_create(&t[i], NULL, hungry, NULL), 0);
	for (int i = 0; i < HUNGRY; i++) {
		sem_wait(&inside[0]);
		sem_post(&leave[0]);
	}
	for (int i = 0; i < HUNGRY; i++)
		check_eq(pthread_join(t[i], NULL), 0);
	quiesce_wait();
	__atomic_store_n(&out_of_memory, 0, __ATOMIC_RELAXED);
}

/* A signal handler that has interrupted malloc() may call exit(). */
static void *leaves(void *arg)
{
	(void)arg;
	quiesce_at_exit();
	quiesce_enter();
	sem_post(&inside[0]);
	sem_wait(&leave[0]);
	quiesce_exit();
	return NULL;
}

TEST(exit_asks_for_no_memory_and_its_sections_are_waited_for)
{
	struct quiesce_grace g;
	pthread_t t;

	sem_init(&inside[0], 0, 0);
	sem_init(&leave[0], 0, 0);
	check_eq(pthread_create(&t, NULL, leaves, NULL), 0);
	sem_wait(&inside[0]);
	check(!__atomic_load_n(&asked, __ATOMIC_RELAXED));
	check(quiesce_begin(&g));
	check(!quiesce_passed(&g));
	sem_post(&leave[0]);
	check_eq(pthread_join(t, NULL), 0);
	check(quiesce_passed(&g));
}

/* --- the log --- */

static void *waits(void *arg)
{
	(void)arg;
	quiesce_wait();
	return NULL;
}

/* The section ends when the line is there. */
TEST(a_wait_that_lasts_is_in_the_log)
{
	int saved = dup(STDERR_FILENO), ends[2];
	pthread_t section, waiter;
	char said[512] = "";
	ssize_t n;

	sem_init(&inside[0], 0, 0);
	sem_init(&leave[0], 0, 0);
	check_eq(pthread_create(&section, NULL, hungry, NULL), 0);
	sem_wait(&inside[0]);
	check_eq(pipe(ends), 0);
	check_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	check_eq(pthread_create(&waiter, NULL, waits, NULL), 0);
	n = read(ends[0], said, sizeof(said) - 1);
	check_eq(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	sem_post(&leave[0]);
	check_eq(pthread_join(waiter, NULL), 0);
	check_eq(pthread_join(section, NULL), 0);
	check(n > 0);
	check(strstr(said, "softhca: a call waits until a thread of this process ends"));
}

/* The level is read at the first line. */
static int set_level(void **state_)
{
	(void)state_;
	return setenv("SOFTHCA_LOG", "info", 1);
}

/* In this order: other tests leave slots that are taken again. */
int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(exit_asks_for_no_memory_and_its_sections_are_waited_for),
		unit_test(sections_begin_without_memory),
		unit_test(a_grace_has_passed_when_the_sections_that_were_open_have_ended),
		unit_test(a_section_that_lasts_is_not_waited_for),
		unit_test(a_grace_begins_when_few_enough_sections_are_open),
		unit_test(a_wait_that_lasts_is_in_the_log),
	};

	return cmocka_run_group_tests(tests, set_level, NULL) ? 1 : 0;
}
