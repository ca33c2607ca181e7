// SPDX-License-Identifier: MIT
/* What an indirect key is made of: parts of other keys, in the order of its bytes; an interleaved
 * pattern goes through its parts several times and takes from each the next place of that part. A
 * list is a pattern that is gone through once. Pure: the keys beneath are numbers here, and whether
 * they allow an access the key table finds out (key_table.h). One who has sealed a layout does not
 * change it any more, and frees it when no quiesce section can see it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "prm/bsf.h"

struct mkey_part {
	uint64_t va; /* as the key beneath names it */
	uint64_t len; /* bytes; 0: nothing */
	uint64_t stride; /* from one time to the next, bytes */
	uint64_t end; /* of the part's bytes within one time through; mkey_layout_seal() sets it */
	uint32_t key; /* beneath */
};

struct mkey_layout {
	struct mkey_layout *next; /* for one who keeps several */
	uint64_t times; /* that the parts are gone through, 1 or more */
	uint64_t period; /* bytes of one time; mkey_layout_seal() sets it */
	struct signature sig; /* of a signed key (mkey/signature.h), which uses the first */
	uint64_t mem; /* bytes of the parts */
	uint32_t n; /* parts */
	struct mkey_part part[];
};

/* Bytes that lie side by side under one key beneath */
struct mkey_step {
	uint64_t va, len;
	uint32_t key;
};

/* Computes the ends. False: it has no bytes, or more than 64 bits count. *@len: bytes in all. */
bool mkey_layout_seal(struct mkey_layout *l, uint64_t *len);
/* Where byte @off lies and what is beside it, at most @len bytes; @off is within the sealed @l. */
struct mkey_step mkey_layout_find(const struct mkey_layout *l, uint64_t off, uint64_t len);
