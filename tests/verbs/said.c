// SPDX-License-Identifier: MIT
#include "verbs/said.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "verbs/peer.h"

enum { TEXT = 1024, SAID = 1 << 16 };

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

static void read_all(enum said_side side, char *buf)
{
	FILE *f = fopen(files[side], "re");
	size_t n = f ? fread(buf, 1, SAID - 1, f) : 0;

	buf[n] = 0;
	if (f)
		fclose(f);
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

bool said_yet(enum said_side side, const char *fmt, ...)
{
	static char lines[SAID];
	char want[TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	read_all(side, lines);
	return among(lines, want);
}

void said_want(enum said_side side, const char *fmt, ...)
{
	static char all[SAID], lines[SAID];
	char want[TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	read_all(side, all);
	memcpy(lines, all, sizeof(lines));
	if (!among(lines, want))
		fail("not said on the %s side:\n\t%s\nbut:\n%s", side == SAID_NEAR ? "near" : "far",
		     want, *all ? all : "nothing");
	unlink(files[side]);
}
