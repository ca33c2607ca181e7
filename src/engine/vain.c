// SPDX-License-Identifier: MIT
#include "engine/vain.h"
#include "util/barrier.h"

static bool others_poll(const struct vain *v, struct vain_threads *t, uint64_t now)
{
	const struct vain *last = load_relaxed(&t->last);
	uint64_t changed = load_relaxed(&t->changed);

	if (last != v) {
		store_relaxed(&t->last, v);
		if (last)
			store_relaxed(&t->changed, now);
		return last != NULL;
	}
	return changed && now - changed < VAIN_APART;
}

bool vain_yields(struct vain *v, struct vain_threads *t, uint64_t now)
{
	bool others = others_poll(v, t, now);

	if (v->polls == VAIN_LOOKS)
		v->since = now;
	if (now - v->since < VAIN_NS)
		return false;
	v->polls = 0;
	return !others;
}
