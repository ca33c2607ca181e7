// SPDX-License-Identifier: MIT
#include "util/spelling.h"
#include <stddef.h>
#include <string.h>

static unsigned int least(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Both shorter than SPELLING_MAX. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int d[SPELLING_MAX + 1][SPELLING_MAX + 1];
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

const char *spelling_nearest(const char *word, const char *const *words)
{
	const char *nearest = NULL;
	unsigned int best = 3;

	if (strlen(word) >= SPELLING_MAX)
		return NULL;
	for (; *words; words++) {
		unsigned int d = distance(word, *words);

		if (d < best && d * 3 <= strlen(*words)) {
			best = d;
			nearest = *words;
		}
	}
	return nearest;
}
