// SPDX-License-Identifier: MIT
#include "util/settings.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "util/log.h"
#include "util/spelling.h"

#define PREFIX	   "SOFTHCA_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

static const char *const names[] = { "DEVICES", "DIRECT",   "DOORBELL",	 "EXPLAIN",
				     "FAULT",	"HOST_UID", "LOG",	 "MLX5DV",
				     "TRACE",	"VIEW",	    "VIEW_ROOT", NULL };

static void check_name(const char *entry)
{
	const char *equals = strchr(entry, '='), *other;
	char name[SPELLING_MAX];
	size_t n;

	if (!equals || strncmp(entry, PREFIX, PREFIX_LEN))
		return;
	n = (size_t)(equals - entry) - PREFIX_LEN;
	if (n >= sizeof(name))
		return;
	memcpy(name, entry + PREFIX_LEN, n);
	name[n] = 0;
	other = spelling_nearest(name, names);
	if (other && strcmp(other, name))
		log_warn(PREFIX "%s means nothing to softhca; is it " PREFIX "%s?", name, other);
}

static bool is_word(const char *value, const char *const *words)
{
	while (*words && strcmp(value, *words))
		words++;
	return *words;
}

static void check_word(const char *name, const char *const *words, const char *said)
{
	const char *value = secure_getenv(name);

	if (value && *value && !is_word(value, words))
		log_warn("%s=%s is not heeded; it is one of: %s", name, value, said);
}

static void check_explain(void)
{
	static const char *const words[] = { "0", "1", "leaks", NULL };
	const char *value = secure_getenv("SOFTHCA_EXPLAIN");

	if (value && *value && !strchr(value, '/') && !is_word(value, words))
		log_warn("SOFTHCA_EXPLAIN=%s is taken for 1; it is one of: 0, 1, leaks, the name "
			 "of a file with a slash",
			 value);
}

static void check(void)
{
	static const char *const bits[] = { "0", "1", NULL };
	static const char *const doorbell[] = { "trap", "nap", "spin", NULL };
	static const char *const log[] = { "error", "warn", "info", "debug", NULL };

	for (char **e = environ; e && *e; e++)
		check_name(*e);
	check_word("SOFTHCA_DIRECT", bits, "0, 1");
	check_word("SOFTHCA_DOORBELL", doorbell, "trap, nap, spin");
	check_word("SOFTHCA_MLX5DV", bits, "0, 1");
	check_word("SOFTHCA_LOG", log, "error, warn, info, debug");
	check_explain();
}

void settings_check(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, check);
}
