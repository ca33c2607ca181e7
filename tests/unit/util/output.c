// SPDX-License-Identifier: MIT
/* A write that fails raises no signal, and a signal that was there before stays. */
#include "util/output.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "test.h"

static volatile sig_atomic_t caught;

static void on_signal(int signal)
{
	(void)signal;
	caught++;
}

static bool is_pending(int signal)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, signal);
}

static bool is_blocked(int signal)
{
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return sigismember(&set, signal);
}

static void unread_pipe(int ends[2])
{
	check_eq(pipe(ends), 0);
	close(ends[0]);
}

/* A file that is as long as files may be. */
static int full_file(void)
{
	struct rlimit limit;
	FILE *f = tmpfile();
	int fd;

	check(f != NULL);
	fd = dup(fileno(f));
	fclose(f);
	check(fd >= 0);
	check_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = 1 << 20;
	check_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	check_eq(ftruncate(fd, 1 << 20), 0);
	check_eq(lseek(fd, 0, SEEK_END), 1 << 20);
	return fd;
}

/* By default both signals end the program; a handler is not called; ignored ones leave nothing. */
TEST(a_failed_write_raises_no_signal)
{
	static void (*const handlers[])(int) = { SIG_DFL, on_signal, SIG_IGN };
	int ends[2], full = full_file();

	unread_pipe(ends);
	for (unsigned int i = 0; i < 3; i++) {
		signal(SIGPIPE, handlers[i]);
		signal(SIGXFSZ, handlers[i]);
		check_eq(output_write(ends[1], "x", 1), -1);
		check_eq(errno, EPIPE);
		check_eq(output_write(full, "x", 1), -1);
		check_eq(errno, EFBIG);
		check(!is_blocked(SIGPIPE) && !is_blocked(SIGXFSZ));
		check(!is_pending(SIGPIPE) && !is_pending(SIGXFSZ));
	}
	check_eq(caught, 0);
	close(ends[1]);
	close(full);
}

TEST(what_the_program_blocks_stays_as_it_was)
{
	sigset_t pipe_only;
	int ends[2];

	unread_pipe(ends);
	signal(SIGPIPE, on_signal);
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, NULL);
	check_eq(output_write(ends[1], "x", 1), -1);
	check(is_blocked(SIGPIPE) && !is_pending(SIGPIPE));
	raise(SIGPIPE);
	check_eq(output_write(ends[1], "x", 1), -1);
	check(is_blocked(SIGPIPE) && is_pending(SIGPIPE));
	check_eq(caught, 0);
	pthread_sigmask(SIG_UNBLOCK, &pipe_only, NULL);
	close(ends[1]); /* a call: ThreadSanitizer calls handlers in calls only */
	check_eq(caught, 1);
}

TEST(relative_names_begin_where_the_library_was_first_used)
{
	char started_in[PATH_MAX], path[PATH_MAX], want[PATH_MAX + 8], name[PATH_MAX] = "";

	check(getcwd(started_in, sizeof(started_in)) != NULL);
	output_begin();
	check_eq(chdir("/"), 0);
	check_eq(output_path("./a", path), 0);
	snprintf(want, sizeof(want), "%s/./a", started_in);
	check_str(path, want);
	check_eq(output_path("/a/b", path), 0);
	check_str(path, "/a/b");
	memset(name, 'x', sizeof(name) - 1);
	check_eq(output_path(name, path), ENAMETOOLONG);
	check_eq(chdir(started_in), 0);
}

TEST(bytes_arrive)
{
	char got[8] = "";
	int ends[2];

	check_eq(pipe(ends), 0);
	check_eq(output_write(ends[1], "abc", 3), 3);
	check_eq(read(ends[0], got, sizeof(got)), 3);
	check_str(got, "abc");
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(a_failed_write_raises_no_signal),
		unit_test(what_the_program_blocks_stays_as_it_was),
		unit_test(relative_names_begin_where_the_library_was_first_used),
		unit_test(bytes_arrive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
