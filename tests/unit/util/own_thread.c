// SPDX-License-Identifier: MIT
#include "util/own_thread.h"
#include <semaphore.h>
#include "test.h"

enum { STACK = 64 << 10, USED = 48 << 10, VARIABLES = 1 << 20 };

static __thread volatile char variables[VARIABLES]; /* of every thread of this program */
static sem_t done;

static void *run(void *arg)
{
	volatile char used[USED];

	(void)arg;
	for (unsigned int i = 0; i < sizeof(used); i += 64)
		used[i] = 1;
	for (unsigned int i = 0; i < sizeof(variables); i += 4096)
		variables[i] = used[0];
	sem_post(&done);
	return NULL;
}

TEST(the_programs_variables_take_nothing_of_the_stack)
{
	sem_init(&done, 0, 0);
	check_eq(own_thread_start(STACK, run, NULL), 0);
	while (sem_wait(&done))
		;
	sem_destroy(&done);
}

RUN_TESTS(unit_test(the_programs_variables_take_nothing_of_the_stack))
