// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "obs/explain.h"
#include "util/barrier.h"
#include "util/log.h"
#include "util/output.h"
#include "util/uncancelled.h"

#define NUMBER " (wr_id 0x" /* behind the call; then the number, and a ')' */

enum { WORDS = EXPLAIN_TEXT / 8, BUSY = 1, LINE = EXPLAIN_TEXT + 64 };

/* A sentence as words, since writer and overtaken reader touch it at the same time. */
struct record {
	uint64_t state; /* id << 1, with BUSY while its writer is in it; 0: never used */
	uint64_t text[WORDS];
};

static struct record ring[EXPLAIN_RECORDS];
static uint64_t last_id; /* ids are handed out from here */

static __thread struct {
	uint64_t id; /* the last record of this thread */
	uint64_t again; /* how often its sentence came again */
	uint64_t count; /* how often it recorded a reason */
} mine;

/* Output: read from the environment once; set by tests and tools. */
enum output { OUT_UNKNOWN, OUT_NONE, OUT_STDERR, OUT_FILE };
static enum output output;
static char path[PATH_MAX]; /* written before output says OUT_FILE */
static bool unsaid; /* SOFTHCA_EXPLAIN was not set: hint() may tell of it */

/* For hint(): how many reasons the process has recorded. A forked child counts anew. */
static uint64_t failures;
static pid_t counted_in;

void explain_set_output(const char *value)
{
	enum output to = OUT_STDERR;

	if (!value || !*value || !strcmp(value, "0"))
		to = OUT_NONE;
	else if (strchr(value, '/') && !output_path(value, path))
		to = OUT_FILE;
	store_release(&output, to); /* pairs with the load in where() */
}

static void read_environment(void)
{
	const char *value = secure_getenv("SOFTHCA_EXPLAIN");

	unsaid = !value || !*value;
	if (load_acquire(&output) == OUT_UNKNOWN)
		explain_set_output(value);
}

static enum output where(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_environment);
	return load_acquire(&output);
}

/* The file is opened for each line: a descriptor kept would not survive a program that closes all
 * it does not know, and then uses the number. O_NONBLOCK: a thread that has a turn does not wait
 * for the reader of a FIFO. */
static void write_line(enum output to, const char *line, size_t n)
{
	int fd = STDERR_FILENO;

	if (to == OUT_FILE)
		fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
			  0666);
	if ((fd < 0 || output_write(fd, line, n) < 0) && to == OUT_FILE)
		log_warn_once("SOFTHCA_EXPLAIN=%s: %s; what fails is not explained there", path,
			      strerror(errno));
	if (to == OUT_FILE && fd >= 0)
		close(fd);
}

static void print(const char *text)
{
	enum output to = where();
	char line[LINE];
	int n, was;

	if (to == OUT_NONE)
		return;
	n = snprintf(line, sizeof(line), "softhca: %.32s[%d]: %s\n", program_invocation_short_name,
		     (int)getpid(), text);
	was = uncancelled_begin(); /* a work request may fail under its queue pair's turn */
	write_line(to, line, (size_t)n);
	uncancelled_end(was);
}

/* Takes the slot of @id; false when a writer that was overtaken by a whole round is still in it, or
 * a newer record is: then this one is not kept. */
static bool claim(struct record *r, uint64_t id)
{
	uint64_t old = load_relaxed(&r->state);

	if (old & BUSY || old >> 1 > id || !cas_acq_rel(&r->state, &old, id << 1 | BUSY))
		return false;
	write_barrier(); /* BUSY before the text: pairs with the read_barrier() in explain_text() */
	return true;
}

static void keep(uint64_t id, const char text[EXPLAIN_TEXT])
{
	struct record *r = &ring[id % EXPLAIN_RECORDS];
	uint64_t word;

	if (!claim(r, id))
		return;
	for (int i = 0; i < WORDS; i++) {
		memcpy(&word, text + i * 8, sizeof(word));
		store_relaxed(&r->text[i], word);
	}
	store_release(&r->state, id << 1); /* pairs with the acquire in explain_text() */
}

int explain_text(uint64_t id, char *buf, size_t n)
{
	const struct record *r = &ring[id % EXPLAIN_RECORDS];
	uint64_t text[WORDS];

	if (!id || load_acquire(&r->state) != id << 1)
		return ENOENT;
	for (int i = 0; i < WORDS; i++)
		text[i] = load_relaxed(&r->text[i]);
	read_barrier();
	if (load_relaxed(&r->state) != id << 1)
		return ENOENT;
	snprintf(buf, n, "%s", (const char *)text);
	return 0;
}

/* This thread says what it said last. */
static bool said_again(const char *text)
{
	char last[EXPLAIN_TEXT];

	return !explain_text(mine.id, last, sizeof(last)) && !strcmp(last, text);
}

/* The same, but for the number of the work request, which @plain lacks. */
static bool refused_again(const char *plain)
{
	char last[EXPLAIN_TEXT], *from, *to;

	if (explain_text(mine.id, last, sizeof(last)))
		return false;
	from = strstr(last, NUMBER);
	to = from ? strchr(from, ')') : NULL;
	if (to)
		memmove(from, to + 1, strlen(to + 1) + 1);
	return !strcmp(last, plain);
}

static void print_again(void)
{
	char text[EXPLAIN_TEXT];

	if (mine.again) {
		snprintf(text, sizeof(text), "(the sentence before: %llu times more)",
			 (unsigned long long)mine.again);
		print(text);
	}
	mine.again = 0;
}

static void count(void)
{
	pid_t pid = getpid();

	if (load_relaxed(&counted_in) != pid) {
		store_relaxed(&failures, 0); /* the parent's */
		store_relaxed(&counted_in, pid);
	}
	fetch_add_relaxed(&failures, 1);
}

static bool somebody_reads(void)
{
	const char *ci = secure_getenv("CI");

	return isatty(STDERR_FILENO) || (ci && *ci && strcmp(ci, "0") && strcmp(ci, "false"));
}

/* exit(): those who do not know SOFTHCA_EXPLAIN are told of it. */
__attribute__((destructor)) static void hint(void)
{
	unsigned long long n = load_relaxed(&failures);
	char line[LINE];
	ssize_t ignored;
	int len;

	if (!n || load_relaxed(&counted_in) != getpid() || where() != OUT_NONE || !unsaid ||
	    !somebody_reads())
		return;
	len = snprintf(line, sizeof(line), "softhca: %llu failure%s; SOFTHCA_EXPLAIN=1 says why\n",
		       n, n == 1 ? "" : "s");
	ignored = output_write(STDERR_FILENO, line, (size_t)len);
	(void)ignored;
}

static void say(const char text[EXPLAIN_TEXT], bool again)
{
	mine.count++;
	count();
	if (again) {
		mine.again++;
		return;
	}
	print_again();
	mine.id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	keep(mine.id, text);
	print(text);
}

static __attribute__((format(printf, 1, 0))) uint64_t record(const char *fmt, va_list ap)
{
	char text[EXPLAIN_TEXT] = "";
	int err = errno;

	vsnprintf(text, sizeof(text), fmt, ap);
	say(text, said_again(text));
	errno = err;
	return mine.id;
}

int refuse(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	record(fmt, ap);
	va_end(ap);
	return err;
}

int refuse_work(int err, uint64_t wr_id, const char *fmt, ...)
{
	char plain[EXPLAIN_TEXT] = "", text[EXPLAIN_TEXT] = "", number[32] = "";
	int was = errno;
	size_t call;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(plain, sizeof(plain), fmt, ap);
	va_end(ap);
	call = strcspn(plain, ":");
	if (wr_id)
		snprintf(number, sizeof(number), NUMBER "%llx)", (unsigned long long)wr_id);
	snprintf(text, sizeof(text), "%.*s%s%s", (int)call, plain, number, plain + call);
	say(text, refused_again(plain));
	errno = was;
	return err;
}

int refuse_memory(const char *call, size_t bytes)
{
	return refuse(ENOMEM, "%s: no memory for %zu B; raise the limit (ulimit -v)", call, bytes);
}

uint64_t reason(const char *fmt, ...)
{
	uint64_t id;
	va_list ap;

	va_start(ap, fmt);
	id = record(fmt, ap);
	va_end(ap);
	return id;
}

int explain_last(char *buf, size_t n)
{
	return explain_text(mine.id, buf, n);
}

uint64_t explain_count(void)
{
	return mine.count;
}

uint64_t explain_last_id(void)
{
	return mine.id;
}
