// SPDX-License-Identifier: MIT
/* Since when a message waits for a receive: for those who ask (engine/show). Under the turn. */
#pragma once
#include <stdint.h>

struct rnr_since {
	uint64_t at; /* ns: when it was first refused; 0: none was */
	uint32_t psn; /* its first */
};

static inline void rnr_note(struct rnr_since *s, uint32_t psn, uint64_t now)
{
	if (!s->at || s->psn != psn)
		*s = (struct rnr_since){ now, psn };
}
