// SPDX-License-Identifier: MIT
/* Keys that are revoked inside turns: those of memory windows (mw.h) and mkeys (mkey.h). A peer's
 * access by such a key holds the lock of the window or mkey from the check to the end of the
 * copy. */
#pragma once
#include "hca/key_table.h"
#include "util/spin.h"

/* Takes the lock of the window or the mkey that has the key @rkey, before the key is checked and
 * used, until fleeting_leave(). NULL: it is another kind of key. Inside a quiesce section. */
struct spin *fleeting_enter(struct key_table *keys, uint32_t rkey);

static inline void fleeting_leave(struct spin *lock) /* NULL is fine */
{
	if (unlikely(lock != NULL))
		spin_unlock(lock);
}

struct invalidation {
	uint32_t key, pdn, qpn;
	bool remote; /* a peer asks for it */
};

/* NULL, or what is wrong, for the text of a reason. Inside a quiesce section. */
const char *fleeting_invalidate(struct key_table *keys, const struct invalidation *i);
