// SPDX-License-Identifier: MIT
/* From SGEs to pieces: checks the keys of the part of a scatter/gather list that is used and walks
 * what they cover to ranges of this process' memory. Inside a quiesce section, like every key
 * check. */
#pragma once
#include "hca/key_table.h"
#include "link/seg.h"
#include "prm/wqe.h"

/* Most pieces: by reference; and with inline data among them, which go by value. */
enum { GATHER_PIECES = WQE_MAX_SGE, GATHER_MIXED = WQE_MAX_RUNS };

struct gather_ask {
	const struct sge *sge;
	unsigned int n;
	uint64_t skip, len; /* bytes of the list: those to pass over, those wanted */
	uint32_t pdn;
	unsigned int need; /* IBV_ACCESS_* */
	uint64_t inlined; /* as in struct wqe: entries that need no key; their pieces have key 0 */
};

struct gather {
	unsigned int n;
	struct piece piece[GATHER_MIXED];
	struct key_ask refused; /* the access that failed */
	enum key_verdict why;
	unsigned int which; /* the SGE's index; inline data does not count */
};

/* False: refused, and the last three members say why. The list must be long enough. */
bool gather(const struct key_table *keys, const struct gather_ask *ask, struct gather *out);
uint64_t gather_bytes(const struct gather *g); /* of its pieces */
/* For a key whose bytes lie apart (KEY_APART): appends the pieces of @ask under the keys beneath
 * that cover them, or, where @key is 0, by value. False: refused, since there are more than @max
 * pieces in all, or a key is gone or refuses. */
bool gather_apart(const struct key_table *keys, const struct key_ask *ask, uint32_t key,
		  unsigned int max, struct gather *out);
