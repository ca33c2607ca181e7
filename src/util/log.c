// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "util/log.h"
#include "util/output.h"

enum { LINE = 512 };

static int level_plus_1; /* 0: SOFTHCA_LOG was not read yet */

enum log_level log_level_of(const char *word)
{
	static const char *const words[] = { "error", "warn", "info", "debug" };

	for (int i = 0; word && i <= LOG_LEVEL_DEBUG; i++)
		if (!strcmp(word, words[i]))
			return (enum log_level)i;
	return LOG_LEVEL_WARN;
}

bool log_wants(enum log_level level)
{
	int n = load_relaxed(&level_plus_1);

	if (!n) {
		n = (int)log_level_of(secure_getenv("SOFTHCA_LOG")) + 1;
		store_relaxed(&level_plus_1, n); /* two threads at once write the same */
	}
	return (int)level < n;
}

void log_line(enum log_level level, const char *fmt, ...)
{
	static const char prefix[] = "softhca: ";
	char line[LINE];
	size_t at = sizeof(prefix) - 1;
	int err = errno, n;
	ssize_t ignored;
	va_list ap;

	if (!log_wants(level))
		return;
	memcpy(line, prefix, at);
	va_start(ap, fmt);
	n = vsnprintf(line + at, LINE - at, fmt, ap);
	va_end(ap);
	if (n > 0)
		at += (size_t)n < LINE - at - 1 ? (size_t)n : LINE - at - 1;
	line[at++] = '\n';
	ignored = output_write(STDERR_FILENO, line, at); /* stderr is closed */
	(void)ignored;
	errno = err;
}
