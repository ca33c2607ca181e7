// SPDX-License-Identifier: MIT
#include "transport/gather.h"

bool gather(const struct key_table *keys, const struct gather_ask *ask, struct gather *out)
{
	uint64_t skip = ask->skip, left = ask->len;

	out->n = 0;
	for (unsigned int i = 0; left && i < ask->n; i++) {
		const struct sge *s = &ask->sge[i];
		uint64_t len = s->len, addr;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		len = len - skip < left ? len - skip : left;
		struct key_ask k = { s->key, ask->pdn, s->addr + skip, len, ask->need };

		out->why = key_check(keys, &k, &addr);
		if (out->why != KEY_OK) {
			out->refused = k;
			out->which = i;
			return false;
		}
		out->piece[out->n++] = (struct piece){ addr, len, s->key };
		left -= len;
		skip = 0;
	}
	return true;
}

void gather_inline(const struct wqe *w, uint64_t skip, uint64_t len, struct gather *out)
{
	out->n = 0;
	for (unsigned int i = 0; len && i < w->ninline; i++) {
		uint64_t n = w->inl[i].len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		n = n - skip < len ? n - skip : len;
		out->piece[out->n++] = (struct piece){ w->inl[i].addr + skip, n, 0 };
		len -= n;
		skip = 0;
	}
}
