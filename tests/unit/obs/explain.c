// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include "test.h"
#include "obs/explain.h"
#include "util/barrier.h"

static char got[8192];

/* What was appended to the file at @path, which is then removed. */
static void read_and_remove(const char *path)
{
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(got, 1, sizeof(got) - 1, f) : 0;

	got[n] = 0;
	if (f)
		fclose(f);
	unlink(path);
}

static void check_last(const char *want)
{
	char text[EXPLAIN_TEXT];

	check_eq(explain_last(text, sizeof(text)), 0);
	check_str(text, want);
}

static void *nothing_yet(void *arg)
{
	char text[8];

	check_eq(explain_last_id(), 0);
	check_eq(explain_last(text, sizeof(text)), ENOENT);
	return arg;
}

TEST(a_fresh_thread_has_no_reason)
{
	pthread_t t;

	check_eq(pthread_create(&t, NULL, nothing_yet, NULL), 0);
	check_eq(pthread_join(t, NULL), 0);
}

TEST(refuse_returns_its_error_and_keeps_the_sentence)
{
	errno = 77;
	check_eq(refuse(EINVAL, "ibv_reg_mr: length %d B", 12), EINVAL);
	check_eq(errno, 77);
	check_last("ibv_reg_mr: length 12 B");
}

TEST(reason_returns_an_id_that_finds_its_text)
{
	char text[EXPLAIN_TEXT];
	uint64_t a = reason("first %x", 0x1a03), b = reason("second");

	check_ne(a, 0);
	check_ne(b, 0);
	check_ne(a, b);
	check_eq(explain_text(a, text, sizeof(text)), 0);
	check_str(text, "first 1a03");
	check_eq(explain_text(b, text, sizeof(text)), 0);
	check_str(text, "second");
	check_eq(explain_last_id(), b);
	check_eq(explain_text(0, text, sizeof(text)), ENOENT);
	check_eq(explain_text(b + 1, text, sizeof(text)), ENOENT);
	check_eq(explain_text(b, text, 4), 0);
	check_str(text, "sec");
}

TEST(the_last_1024_are_kept)
{
	char text[EXPLAIN_TEXT], want[32];
	uint64_t first = reason("number 0"), id = first;

	for (int i = 1; i <= EXPLAIN_RECORDS; i++)
		id = reason("number %d", i);
	check_eq(explain_text(first, text, sizeof(text)), ENOENT);
	for (int i = 1; i <= EXPLAIN_RECORDS; i++) {
		snprintf(want, sizeof(want), "number %d", i);
		check_eq(explain_text(id - EXPLAIN_RECORDS + (uint64_t)i, text, sizeof(text)), 0);
		check_str(text, want);
	}
}

TEST(a_long_sentence_is_cut)
{
	char text[2 * EXPLAIN_TEXT], back[2 * EXPLAIN_TEXT];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	check_eq(explain_text(reason("%s", text), back, sizeof(back)), 0);
	check_eq(strlen(back), EXPLAIN_TEXT - 1);
}

/* Each line says whose it is. */
static void check_printed(unsigned int n, const char *const text[])
{
	char want[512];
	size_t at = 0;

	for (unsigned int i = 0; i < n; i++)
		at += (size_t)snprintf(want + at, sizeof(want) - at, "softhca: %s[%d]: %s\n",
				       program_invocation_short_name, (int)getpid(), text[i]);
	check_str(got, want);
}

TEST(the_same_again_is_counted_and_not_repeated)
{
	char path[] = "/tmp/softhca-explain-XXXXXX";
	int fd = mkstemp(path);
	uint64_t id;

	check(fd >= 0);
	close(fd);
	explain_set_output(path);
	id = reason("a %d", 1);
	for (int i = 0; i < 5; i++)
		check_eq(reason("a %d", 1), id);
	check_ne(reason("b"), id);
	reason("a %d", 1);
	explain_set_output(NULL);
	reason("silent");
	read_and_remove(path);
	check_printed(4, (const char *const[]){ "a 1", "(the sentence before: 5 times more)", "b",
						"a 1" });
}

/* In which refusals in a row differ, as of a program that posts until the queue is full. */
TEST(a_refused_work_request_is_named_by_its_number)
{
	char path[] = "/tmp/softhca-explain-XXXXXX";
	int fd = mkstemp(path);

	check(fd >= 0);
	close(fd);
	explain_set_output(path);
	errno = 77;
	check_eq(refuse_work(ENOMEM, 0x1f, "ibv_post_send: QP 0x%x: full", 5), ENOMEM);
	check_eq(errno, 77);
	check_last("ibv_post_send (wr_id 0x1f): QP 0x5: full");
	refuse_work(ENOMEM, 0x20, "ibv_post_send: QP 0x%x: full", 5);
	refuse_work(ENOMEM, 0, "ibv_post_send: QP 0x%x: full", 5);
	refuse_work(ENOMEM, 0x21, "ibv_post_send: QP 0x%x: full", 6);
	refuse_work(EINVAL, 0, "ibv_post_send: no number");
	refuse_work(EINVAL, UINT64_MAX, "no call");
	explain_set_output(NULL);
	read_and_remove(path);
	check_printed(5, (const char *const[]){ "ibv_post_send (wr_id 0x1f): QP 0x5: full",
						"(the sentence before: 2 times more)",
						"ibv_post_send (wr_id 0x21): QP 0x6: full",
						"ibv_post_send: no number",
						"no call (wr_id 0xffffffffffffffff)" });
}

TEST(output_1_is_stderr)
{
	int ends[2], saved = dup(STDERR_FILENO);
	ssize_t n;

	check(saved >= 0);
	check_eq(pipe(ends), 0);
	check_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	explain_set_output("1");
	refuse(EPERM, "to stderr");
	explain_set_output("0");
	refuse(EPERM, "to nobody");
	check_eq(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	close(ends[1]);
	n = read(ends[0], got, sizeof(got) - 1);
	close(ends[0]);
	check(n > 0);
	got[n] = 0;
	check_printed(1, (const char *const[]){ "to stderr" });
}

TEST(a_fifo_that_nobody_reads_keeps_nobody)
{
	char path[] = "/tmp/softhca-explain-XXXXXX";
	int reader;
	ssize_t n;

	check(mkdtemp(path));
	check_eq(rmdir(path), 0);
	check_eq(mkfifo(path, 0600), 0);
	explain_set_output(path);
	refuse(EPERM, "nobody reads");
	reader = open(path, O_RDONLY | O_NONBLOCK);
	check(reader >= 0);
	refuse(EPERM, "one reads");
	n = read(reader, got, sizeof(got) - 1);
	explain_set_output("0");
	close(reader);
	unlink(path);
	check(n > 0);
	got[n] = 0;
	check_printed(1, (const char *const[]){ "one reads" });
}

/* Writers overtake each other and the readers round and round: whatever a reader is given is one
 * writer's sentence whole, of the id asked for. */
static bool torn;
static uint64_t oldest; /* the first id of this test */
static uint64_t newest; /* an id that was recorded lately */

static void check_whole(uint64_t id)
{
	char text[EXPLAIN_TEXT];
	char letter;
	size_t n;

	if (id < oldest || explain_text(id, text, sizeof(text)))
		return;
	n = strlen(text);
	letter = text[0];
	if (n != 208)
		store_relaxed(&torn, true);
	for (size_t i = 0; i < 200 && i < n; i++)
		if (text[i] != letter)
			store_relaxed(&torn, true);
}

static void *write_and_read(void *arg)
{
	char text[201];

	memset(text, *(char *)arg, 200);
	text[200] = 0;
	for (int i = 0; i < 10000; i++) {
		uint64_t id = reason("%s%08d", text, i);

		store_relaxed(&newest, id);
		check_whole(id);
		if (id > EXPLAIN_RECORDS)
			check_whole(id - EXPLAIN_RECORDS + 1); /* the next to be overwritten */
		check_whole(load_relaxed(&newest));
	}
	return NULL;
}

TEST(readers_get_whole_sentences_or_none)
{
	static char letters[] = "abc";
	pthread_t t[3];

	oldest = reason("the race begins") + 1;
	for (int i = 0; i < 3; i++)
		check_eq(pthread_create(&t[i], NULL, write_and_read, &letters[i]), 0);
	for (int i = 0; i < 3; i++)
		check_eq(pthread_join(t[i], NULL), 0);
	check(!torn);
	check_ne(newest, 0);
}

RUN_TESTS(unit_test(a_fresh_thread_has_no_reason),
	  unit_test(refuse_returns_its_error_and_keeps_the_sentence),
	  unit_test(reason_returns_an_id_that_finds_its_text), unit_test(the_last_1024_are_kept),
	  unit_test(a_long_sentence_is_cut), unit_test(the_same_again_is_counted_and_not_repeated),
	  unit_test(a_refused_work_request_is_named_by_its_number), unit_test(output_1_is_stderr),
	  unit_test(a_fifo_that_nobody_reads_keeps_nobody),
	  unit_test(readers_get_whole_sentences_or_none))
