// SPDX-License-Identifier: MIT
#include "hca/numbers.h"
#include <errno.h>
#include "util/barrier.h"

int numbers_take(struct numbers *p, uint32_t *out)
{
	uint32_t start = fetch_add_relaxed(&p->next, 1);

	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t number = (start + i) % p->n;
		uint64_t *word = &p->words[number / 64], bit = 1ULL << number % 64;

		if (!number || (load_relaxed(word) & bit) || (fetch_or_acq_rel(word, bit) & bit))
			continue;
		*out = number;
		return 0;
	}
	return ENOSPC;
}

void numbers_give(struct numbers *p, uint32_t number)
{
	fetch_and_acq_rel(&p->words[number / 64], ~(1ULL << number % 64));
}
