// SPDX-License-Identifier: MIT
#include "settings.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "softhca.h"

#define PREFIX	   "SOFTHCA_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)
enum { NAME = 24 }; /* a longer name is none of ours, nor nearly */

static const char *const names[] = { "DEVICES",	 "DIRECT", "EXPLAIN", "FAULT",
				     "HOST_UID", "LOG",	   "TRACE",   "VIEW" };
#define NAMES (sizeof(names) / sizeof(*names))

static unsigned int least(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* How many letters must be put in, left out or changed to make one word the other; two neighbours
 * that changed places count as one. Both shorter than NAME. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int d[NAME + 1][NAME + 1];
	unsigned int n = (unsigned int)strlen(a), m = (unsigned int)strlen(b);

	for (unsigned int i = 0; i <= n; i++)
		d[i][0] = i;
	for (unsigned int j = 0; j <= m; j++)
		d[0][j] = j;
	for (unsigned int i = 1; i <= n; i++)
		for (unsigned int j = 1; j <= m; j++) {
			d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1,
					d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1, d[i][j]);
		}
	return d[n][m];
}

/* NULL: @name is one of ours, or resembles none. */
static const char *meant(const char *name)
{
	const char *nearest = NULL;
	unsigned int best = 3;

	if (strlen(name) >= NAME || !strcmp(name, "VIEW_ROOT"))
		return NULL;
	for (size_t i = 0; i < NAMES; i++) {
		unsigned int d = distance(name, names[i]);

		if (!d)
			return NULL;
		if (d < best && d * 3 <= strlen(names[i])) {
			best = d;
			nearest = names[i];
		}
	}
	return nearest;
}

static void check_names(void)
{
	for (char **e = environ; *e; e++) {
		const char *equals = strchr(*e, '=');
		char name[NAME + 1];
		const char *other;
		size_t n;

		if (!equals || strncmp(*e, PREFIX, PREFIX_LEN))
			continue;
		n = (size_t)(equals - *e) - PREFIX_LEN;
		if (n >= NAME)
			continue;
		memcpy(name, *e + PREFIX_LEN, n);
		name[n] = 0;
		other = meant(name);
		if (other)
			complain(PREFIX "%s means nothing to softhca; is it " PREFIX "%s?", name,
				 other);
	}
}

static bool is_one_of(const char *value, const char *const *words)
{
	while (*words && strcmp(value, *words))
		words++;
	return *words != NULL;
}

static void check_value(const char *name, const char *const *words, const char *said)
{
	const char *value = getenv(name);

	if (value && *value && !is_one_of(value, words))
		complain("%s=%s is not heeded; it is one of: %s", name, value, said);
}

void settings_check(void)
{
	static const char *const direct[] = { "0", "1", NULL };
	static const char *const view[] = { "0", "files", NULL };
	static const char *const log[] = { "error", "warn", "info", "debug", NULL };

	check_names();
	check_value("SOFTHCA_DIRECT", direct, "0, 1");
	check_value("SOFTHCA_VIEW", view, "0, files");
	check_value("SOFTHCA_LOG", log, "error, warn, info, debug");
}
