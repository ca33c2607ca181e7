// SPDX-License-Identifier: MIT
#include "verbs/said.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "verbs/peer.h"

enum { TEXT = 1024 };

static const char *prefix = "softhca: ";
static char files[2][512];

const char *said_file(enum said_side side)
{
	return files[side];
}

void said_begin(void)
{
	const char *tmp = getenv("TMPDIR");

	for (int i = 0; i < 2; i++) {
		snprintf(files[i], sizeof(files[i]), "%s/said-%d-%s", tmp ? tmp : "/tmp", getpid(),
			 i == SAID_NEAR ? "near" : "far");
		unlink(files[i]);
	}
	setenv("SOFTHCA_EXPLAIN", files[SAID_NEAR], 1);
}

/* All of it, to free(); "" when nothing was said. */
static char *read_all(enum said_side side)
{
	FILE *f = fopen(files[side], "re");
	char *text = NULL;
	size_t n = 0;

	if (!f || getdelim(&text, &n, 0, f) < 0) {
		free(text);
		text = strdup("");
	}
	if (f)
		fclose(f);
	return text;
}

static bool same(const char *text, const char *want)
{
	for (; *want && *want != '#'; text++, want++)
		if (*text != *want)
			return false;
	if (!*want)
		return !*text;
	if (!isxdigit((unsigned char)*text))
		return false;
	while (isxdigit((unsigned char)*text))
		text++;
	return same(text, want + 1);
}

/* "softhca: program[pid]: sentence" */
static const char *behind_the_name(const char *line)
{
	const char *end = strstr(line, "]: ");

	return end ? end + 3 : "";
}

static bool among(char *lines, const char *want)
{
	char *line;

	while ((line = strsep(&lines, "\n")))
		if (!strncmp(line, prefix, strlen(prefix)) && same(behind_the_name(line), want))
			return true;
	return false;
}

static bool has_said(enum said_side side, const char *want)
{
	char *lines = read_all(side);
	bool has = among(lines, want);

	free(lines);
	return has;
}

bool said_yet(enum said_side side, const char *fmt, ...)
{
	char want[TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	return has_said(side, want);
}

void said_want(enum said_side side, const char *fmt, ...)
{
	char want[TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	if (!has_said(side, want))
		fail("the %s side said:\n%s\nand not:\n\t%s", side == SAID_NEAR ? "near" : "far",
		     read_all(side), want);
	unlink(files[side]);
}
