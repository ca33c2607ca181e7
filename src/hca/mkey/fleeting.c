// SPDX-License-Identifier: MIT
#include "hca/mkey/fleeting.h"
#include "hca/mkey/mkey.h"
#include "hca/mw.h"

/* Out of line: what it does is rare, and its callers are not. */
__attribute__((noinline)) static struct spin *enter(struct key_table *keys, uint32_t rkey)
{
	struct mw *mw = key_lookup_window(keys, rkey);
	struct mkey *m = mw ? NULL : key_lookup_mkey(keys, rkey);
	struct spin *lock = mw ? &mw->lock : m ? &m->lock : NULL;

	if (lock)
		spin_lock(lock);
	return lock;
}

struct spin *fleeting_enter(struct key_table *keys, uint32_t rkey)
{
	return likely(!key_is_fleeting(keys, rkey)) ? NULL : enter(keys, rkey);
}

const char *fleeting_invalidate(struct key_table *keys, const struct invalidation *i)
{
	if (key_lookup_window(keys, i->key))
		return mw_invalidate(keys, i->key, i->pdn, i->qpn);
	return mkey_invalidate(keys, i->key, i->pdn, i->remote);
}
