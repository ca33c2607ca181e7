// SPDX-License-Identifier: MIT
#include "transport/gather.h"
#include "util/barrier.h"

bool gather_apart(const struct key_table *keys, const struct key_ask *ask, uint32_t key,
		  unsigned int max, struct gather *out)
{
	struct key_ask rest = *ask;

	while (rest.len) {
		struct span s;
		uint32_t under = 0;
		enum key_verdict v = key_span(keys, &rest, &s, &under);

		if (v != KEY_OK || out->n >= max) {
			out->why = v == KEY_OK ? KEY_APART : v;
			out->refused = v == KEY_OK ? *ask : rest;
			return false;
		}
		out->piece[out->n++] = (struct piece){ s.addr, (uint32_t)s.len, key ? under : 0 };
		rest.va += s.len;
		rest.len -= s.len;
	}
	return true;
}

/* Entry @i was not simply allowed: its bytes lie apart, or it is refused. Those behind it need
 * a piece each at least. */
__attribute__((noinline)) static bool gather_special(const struct key_table *keys,
						     const struct gather_ask *ask, unsigned int i,
						     const struct key_ask *k, struct gather *out)
{
	unsigned int max = ask->inlined ? GATHER_MIXED : GATHER_PIECES;

	if (out->why != KEY_APART)
		out->refused = *k;
	else if (gather_apart(keys, k, k->key, max - (ask->n - i - 1), out))
		return true;
	out->which = i - (unsigned int)__builtin_popcountll(ask->inlined & ((1ULL << i) - 1));
	return false;
}

/* Bytes [skip, skip + len) of entry @i, which has a key */
static inline bool keyed(const struct key_table *keys, const struct gather_ask *ask, unsigned int i,
			 uint64_t skip, uint64_t len, struct gather *out)
{
	const struct sge *s = &ask->sge[i];
	struct key_ask k = { s->key, ask->pdn, s->addr + skip, len, ask->need };
	uint64_t addr;

	out->why = key_check(keys, &k, &addr);
	if (unlikely(out->why != KEY_OK))
		return gather_special(keys, ask, i, &k, out);
	out->piece[out->n++] = (struct piece){ addr, len, s->key };
	return true;
}

bool gather(const struct key_table *keys, const struct gather_ask *ask, struct gather *out)
{
	uint64_t skip = ask->skip, left = ask->len;

	out->n = 0;
	for (unsigned int i = 0; left && i < ask->n; i++) {
		const struct sge *s = &ask->sge[i];
		uint64_t len = s->len;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		len = len - skip < left ? len - skip : left;
		if (ask->inlined >> i & 1)
			out->piece[out->n++] = (struct piece){ s->addr + skip, len, 0 };
		else if (!keyed(keys, ask, i, skip, len, out))
			return false;
		left -= len;
		skip = 0;
	}
	return true;
}

uint64_t gather_bytes(const struct gather *g)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < g->n; i++)
		n += g->piece[i].len;
	return n;
}
