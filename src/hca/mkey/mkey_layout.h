// SPDX-License-Identifier: MIT
/* What an indirect key is made of: parts of other keys, in the order of its bytes. An interleaved
 * pattern goes through its parts in several rounds, and each round takes a part's next place. A
 * list is a pattern of one round. Pure: the keys beneath are numbers here; the key table finds out
 * whether they allow an access (key_table.h). A layout does not change after mkey_layout_seal(),
 * and its owner frees it when no quiesce section can see it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "prm/bsf.h"

struct mkey_part {
	uint64_t va; /* as the key beneath names it */
	uint64_t len; /* bytes; 0: nothing */
	uint64_t stride; /* bytes from the part's place in one round to that in the next */
	uint64_t end; /* offset behind the part's bytes in a round; mkey_layout_seal() sets it */
	uint32_t key; /* the key beneath */
};

struct mkey_layout {
	struct mkey_layout *next; /* for the owner's list */
	uint64_t times; /* rounds through the parts, 1 or more */
	uint64_t period; /* bytes of one round; mkey_layout_seal() sets it */
	struct signature sig; /* of a signed key (mkey/signature.h) */
	uint64_t mem; /* of a signed key: bytes of memory that it covers */
	uint32_t n; /* parts */
	struct mkey_part part[];
};

/* Bytes that lie side by side under one key beneath */
struct mkey_step {
	uint64_t va, len;
	uint32_t key;
};

/* Computes the ends. False: it has no bytes, or 2^64 or more. *@len: bytes in all. */
bool mkey_layout_seal(struct mkey_layout *l, uint64_t *len);
/* Where byte @off lies and what is beside it, at most @len bytes; @off is within the sealed @l. */
struct mkey_step mkey_layout_find(const struct mkey_layout *l, uint64_t off, uint64_t len);
