// SPDX-License-Identifier: MIT
#include "util/arena.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "test.h"

enum { PAGE = 4096, PARTS = 8 };

static struct arena_part *take(size_t len)
{
	struct arena_part *p;

	check_eq(arena_take(len, &p), 0);
	return p;
}

/* The descriptor of the arena's file; -1: there is none. */
static int file(void)
{
	DIR *all = opendir("/proc/self/fd");
	char path[300], to[64];
	struct dirent *e;
	int fd = -1;

	check(all != NULL);
	while (fd < 0 && (e = readdir(all))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		to[n < 0 ? 0 : n] = '\0';
		if (!strncmp(to, "/memfd:softhca-arena", 20))
			fd = atoi(e->d_name);
	}
	closedir(all);
	return fd;
}

static off_t size_of(int fd)
{
	struct stat st;

	check_eq(fstat(fd, &st), 0);
	return st.st_size;
}

static bool is_zero(const struct arena_part *p, size_t len)
{
	const uint8_t *b = arena_at(p);

	for (size_t i = 0; i < len; i++)
		if (b[i])
			return false;
	return true;
}

static bool is_mapped(void *at)
{
	unsigned char in;

	return !mincore(at, PAGE, &in) || errno != ENOMEM;
}

TEST(the_file_lives_as_long_as_a_part)
{
	struct arena_part *a, *b;

	check_eq(file(), -1);
	a = take(1);
	b = take(PAGE + 1);
	check_eq(size_of(file()), 3 * PAGE);
	check_ne(fcntl(file(), F_GETFD) & FD_CLOEXEC, 0);
	arena_give(a);
	check_ne(file(), -1);
	arena_give(b);
	check_eq(file(), -1);
	arena_give(NULL);
}

TEST(nobody_cuts_the_file_short)
{
	struct arena_part *a = take(PAGE);

	check_eq(ftruncate(file(), 0), -1);
	check_eq(errno, EPERM);
	arena_give(a);
}

TEST(parts_are_zeroed_and_apart)
{
	struct arena_part *p[PARTS];

	for (int i = 0; i < PARTS; i++) {
		p[i] = take((size_t)PAGE * (1 + i % 3));
		check(is_zero(p[i], PAGE));
		memset(arena_at(p[i]), i + 1, (size_t)PAGE * (1 + i % 3));
	}
	for (int i = 0; i < PARTS; i++)
		for (size_t k = 0; k < (size_t)PAGE * (1 + i % 3); k++)
			check_eq(((uint8_t *)arena_at(p[i]))[k], i + 1);
	for (int i = 0; i < PARTS; i++)
		arena_give(p[i]);
}

/* In each order of giving back, what was taken together fits again, and nothing is left in it. */
TEST(what_is_given_back_is_used_again)
{
	static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					 { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

	for (int k = 0; k < 6; k++) {
		struct arena_part *first = take(PAGE), *p[3], *all;
		off_t before;

		for (int i = 0; i < 3; i++) {
			p[i] = take(2 * PAGE);
			memset(arena_at(p[i]), 0xff, 2 * PAGE);
		}
		before = size_of(file());
		for (int i = 0; i < 3; i++)
			arena_give(p[orders[k][i]]);
		all = take(6 * PAGE);
		check_eq(size_of(file()), before);
		check(is_zero(all, 6 * PAGE));
		arena_give(all);
		arena_give(first);
	}
}

TEST(pages_that_are_given_back_are_freed)
{
	struct arena_part *a = take(PAGE), *b = take(64 * PAGE);
	struct stat st;

	arena_give(b);
	check_eq(fstat(file(), &st), 0);
	check_eq(st.st_blocks * 512, PAGE);
	arena_give(a);
}

TEST(a_limit_of_file_sizes_makes_parts_private)
{
	struct rlimit before, limit;
	struct arena_part *a, *b;

	check_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 2 * PAGE;
	check_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	a = take(PAGE);
	b = take(2 * PAGE); /* SIGXFSZ would end the program */
	check(is_zero(b, 2 * PAGE));
	memset(arena_at(b), 1, 2 * PAGE);
	check_eq(size_of(file()), PAGE);
	arena_give(a);
	check_eq(file(), -1);
	arena_give(b);
	check_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(without_a_descriptor_parts_are_private)
{
	struct rlimit before, none;
	struct arena_part *a;

	check_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	check_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	a = take(PAGE);
	check_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	check(is_zero(a, PAGE));
	check_eq(file(), -1);
	arena_give(a);
}

/* The program has closed the file, and opened one of its own under the number. */
TEST(a_file_of_the_program_is_left_alone)
{
	struct arena_part *a = take(PAGE), *b;
	int fd = file(), own = memfd_create("own", MFD_CLOEXEC);

	check_eq(write(own, "kept", 4), 4);
	check_eq(dup2(own, fd), fd);
	memset(arena_at(a), 1, PAGE);
	b = take(PAGE);
	check(is_zero(b, PAGE));
	arena_give(a);
	arena_give(b);
	check_eq(size_of(own), 4);
	check_ne(fcntl(fd, F_GETFD), -1);
	close(fd);
	close(own);
	a = take(PAGE);
	check_ne(file(), -1);
	arena_give(a);
}

/* What a forked child finds, as an exit code. */
static int look_in_child(void *inherited)
{
	struct arena_part *a;

	if (file() >= 0)
		return 1;
	if (is_mapped(inherited))
		return 2;
	a = take(PAGE);
	if (!is_zero(a, PAGE) || size_of(file()) != PAGE)
		return 3;
	memset(arena_at(a), 2, PAGE);
	arena_give(a);
	return file() < 0 ? 0 : 4;
}

TEST(a_forked_child_has_parts_of_its_own)
{
	struct arena_part *a = take(PAGE), *gap = take(PAGE), *b = take(PAGE);
	int status;
	pid_t pid;

	arena_give(gap);
	memset(arena_at(a), 1, PAGE);
	pid = fork();
	if (!pid)
		_exit(look_in_child(arena_at(a)));
	check_eq(waitpid(pid, &status, 0), pid);
	check(WIFEXITED(status));
	check_eq(WEXITSTATUS(status), 0);
	check_eq(((uint8_t *)arena_at(a))[PAGE - 1], 1);
	arena_give(a);
	arena_give(b);
	check_eq(file(), -1);
}

RUN_TESTS(unit_test(the_file_lives_as_long_as_a_part), unit_test(nobody_cuts_the_file_short),
	  unit_test(parts_are_zeroed_and_apart), unit_test(what_is_given_back_is_used_again),
	  unit_test(pages_that_are_given_back_are_freed),
	  unit_test(a_limit_of_file_sizes_makes_parts_private),
	  unit_test(without_a_descriptor_parts_are_private),
	  unit_test(a_file_of_the_program_is_left_alone),
	  unit_test(a_forked_child_has_parts_of_its_own))
