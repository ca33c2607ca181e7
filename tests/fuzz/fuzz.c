// SPDX-License-Identifier: MIT
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 2 * FUZZ_INPUT_MAX + 2 };

void fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void parse_line(const char *line, struct fuzz_input *out)
{
	out->data = malloc(strlen(line) / 2 + 1);
	out->len = 0;
	if (!out->data)
		abort();
	for (; digit(line[0]) >= 0 && digit(line[1]) >= 0; line += 2)
		out->data[out->len++] = (uint8_t)(digit(line[0]) << 4 | digit(line[1]));
}

size_t fuzz_corpus(struct fuzz_input *out, size_t max)
{
	const char *tests = getenv("SOFTHCA_TESTS"); /* the runner's copy; else the source */
	static char line[LINE];
	char path[1024];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/fuzz/corpus/%s.hex", tests ? tests : FUZZ_TESTS,
		 fuzz_target.name);
	f = fopen(path, "r");
	if (!f) {
		perror(path);
		exit(1);
	}
	while (n < max && fgets(line, sizeof(line), f))
		if (line[0] != '#')
			parse_line(line, &out[n++]);
	fclose(f);
	return n;
}

uint64_t fuzz_take(struct fuzz_bytes *b, unsigned int n)
{
	const uint8_t *p;
	size_t got = fuzz_take_run(b, n, &p);
	uint64_t v = 0;

	while (got--)
		v = v << 8 | p[got];
	return v;
}

size_t fuzz_take_run(struct fuzz_bytes *b, size_t n, const uint8_t **out)
{
	if (n > b->left)
		n = b->left;
	*out = b->p;
	b->p += n;
	b->left -= n;
	return n;
}
