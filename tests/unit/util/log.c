// SPDX-License-Identifier: MIT
#include <errno.h>
#include <unistd.h>
#include "test.h"
#include "util/log.h"

static char got[4096];

static int saved, ends[2];

static void capture_begin(void)
{
	check_eq(pipe(ends), 0);
	saved = dup(STDERR_FILENO);
	check(saved >= 0);
	check_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
}

/* What was written to stderr meanwhile, in got. */
static void capture_end(void)
{
	ssize_t n;
	size_t at = 0;

	check_eq(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	while ((n = read(ends[0], got + at, sizeof(got) - 1 - at)) > 0)
		at += (size_t)n;
	got[at] = 0;
	close(ends[0]);
}

static void warn_once(int n)
{
	log_warn_once("number %d", n);
}

TEST(words_name_levels)
{
	check_eq(log_level_of("error"), LOG_LEVEL_ERROR);
	check_eq(log_level_of("warn"), LOG_LEVEL_WARN);
	check_eq(log_level_of("info"), LOG_LEVEL_INFO);
	check_eq(log_level_of("debug"), LOG_LEVEL_DEBUG);
	check_eq(log_level_of(NULL), LOG_LEVEL_WARN);
	check_eq(log_level_of("loud"), LOG_LEVEL_WARN);
}

TEST(lines_have_a_prefix_and_obey_the_level)
{
	capture_begin();
	errno = 77;
	log_error("a %d", 1);
	log_warn("b");
	log_info("c %s", "x");
	log_debug("d");
	check_eq(errno, 77);
	capture_end();
	check_str(got, "softhca: a 1\nsofthca: b\nsofthca: c x\n");
}

TEST(once_is_once)
{
	capture_begin();
	for (int i = 0; i < 3; i++)
		warn_once(i);
	capture_end();
	check_str(got, "softhca: number 0\n");
}

TEST(a_long_line_is_cut_and_ends_in_a_newline)
{
	char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	capture_begin();
	log_error("%s", text);
	capture_end();
	check_eq(strlen(got), 512);
	check_eq(got[511], '\n');
	check_eq(got[510], 'x');
}

/* The level is read at the first line, so the environment is set before any test. */
static int set_level(void **state_)
{
	(void)state_;
	return setenv("SOFTHCA_LOG", "info", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(words_name_levels),
		unit_test(lines_have_a_prefix_and_obey_the_level),
		unit_test(once_is_once),
		unit_test(a_long_line_is_cut_and_ends_in_a_newline),
	};

	return cmocka_run_group_tests(tests, set_level, NULL) ? 1 : 0;
}
