// SPDX-License-Identifier: MIT
#include "util/death.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "test.h"

struct shared {
	uint32_t word;
	int up[2], down[2]; /* pipes: says that it is marked; ends when it is told to */
};

static struct shared *shared_make(void)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	check(s != MAP_FAILED);
	check_eq(pipe(s->up) | pipe(s->down), 0);
	return s;
}

static void *marks(void *arg)
{
	struct shared *s = arg;
	char c = 0;

	if (death_mark(&s->word) || write(s->up[1], &c, 1) != 1)
		_exit(1);
	if (read(s->down[0], &c, 1) != 1)
		_exit(1);
	return NULL;
}

static void wait_marked(struct shared *s)
{
	char c;

	check_eq(read(s->up[0], &c, 1), 1);
	check(death_alive(&s->word));
}

TEST(a_word_that_nobody_marked_is_not_alive)
{
	uint32_t word = 0;

	check(!death_alive(&word));
}

TEST(the_end_of_the_thread_is_seen)
{
	struct shared *s = shared_make();
	pthread_t thread;

	check_eq(pthread_create(&thread, NULL, marks, s), 0);
	wait_marked(s);
	check_eq(write(s->down[1], "", 1), 1);
	pthread_join(thread, NULL);
	check(!death_alive(&s->word));
}

/* The mark is a second thread's, as the engine's is; @how ends the process. */
static void check_end(void (*how)(pid_t pid, struct shared *s), const char *program)
{
	struct shared *s = shared_make();
	char c;
	pid_t pid = fork();

	if (!pid) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, marks, s) || read(s->down[0], &c, 1) != 1)
			_exit(1);
		if (program)
			execlp(program, program, "60", (char *)NULL);
		_exit(0);
	}
	wait_marked(s);
	how(pid, s);
	if (!program)
		waitpid(pid, NULL, 0);
	else
		while (death_alive(&s->word))
			; /* exec tells nobody when it has happened; a hang is the failure */
	check(!death_alive(&s->word));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void by_kill(pid_t pid, struct shared *s)
{
	(void)s;
	kill(pid, SIGKILL);
}

static void by_word(pid_t pid, struct shared *s)
{
	(void)pid;
	check_eq(write(s->down[1], "  ", 2), 2); /* whoever reads it first */
}

TEST(the_end_of_the_process_is_seen)
{
	check_end(by_kill, NULL);
	check_end(by_word, NULL);
}

TEST(another_program_is_seen)
{
	check_end(by_word, "sleep");
}

RUN_TESTS(unit_test(a_word_that_nobody_marked_is_not_alive),
	  unit_test(the_end_of_the_thread_is_seen), unit_test(the_end_of_the_process_is_seen),
	  unit_test(another_program_is_seen))
