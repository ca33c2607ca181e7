// SPDX-License-Identifier: MIT
/* The page of an XRC domain, which each of its members may write: whatever stands in it, what is
 * found is in it, and a place is one that is free. The input: what a member writes, and what this
 * one looks for, in turn. */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "xrc/xrc_page.h"

enum { MAX = 1024, STEPS = 32 };

const struct fuzz_target fuzz_target = { "page", MAX, 6000 };

static struct xrc_page *page;

/* Anywhere, but mostly at the beginning of one of the first entries. */
static void write_some(struct fuzz_bytes *b)
{
	uint64_t at = fuzz_take(b, 3);
	const uint8_t *from;
	size_t n;

	if (at & 1)
		at = offsetof(struct xrc_page, target) + (at >> 1 & 7) * sizeof(struct xrc_shared) +
		     (at >> 4) % sizeof(struct xrc_shared);
	at %= sizeof(*page);
	n = fuzz_take(b, 1) % 64;
	n = fuzz_take_run(b, n < sizeof(*page) - at ? n : sizeof(*page) - at, &from);
	memcpy((uint8_t *)page + at, from, n);
}

static void find(struct fuzz_bytes *b)
{
	uint32_t qpn = (uint32_t)fuzz_take(b, 3), index = XRC_TARGETS;
	struct xrc_shared *t = xrc_page_find(page, qpn, &index);

	if (!t)
		return;
	must(index < XRC_TARGETS && t == &page->target[index] && t->qpn == qpn);
}

static void place(struct fuzz_bytes *b)
{
	uint32_t qpn = 1 + (uint32_t)fuzz_take(b, 3) % 0xffffff, index, found;

	if (!xrc_page_place(page, qpn, &index))
		return;
	must(index < XRC_TARGETS && !page->target[index].qpn);
	xrc_page_begin(&page->target[index], qpn);
	must(page->target[index].state.state == IBV_QPS_RESET);
	must(xrc_page_find(page, qpn, &found) != NULL);
}

static void inherit(struct fuzz_bytes *b)
{
	uint32_t me = (uint32_t)fuzz_take(b, 1) % XRC_MEMBERS;
	uint32_t before = xrc_page_word((uint32_t)fuzz_take(b, 2), me);

	xrc_page_inherit(page, me, before);
	for (uint32_t i = 0; i < 8; i++) {
		must(!(page->target[i].holders[me / 64] >> me % 64 & 1));
		must(page->target[i].turn != before);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void (*const doings[])(struct fuzz_bytes *) = { write_some, find, place, inherit };
	struct fuzz_bytes b = { data, len };

	if (!page)
		page = malloc(sizeof(*page));
	if (!page)
		abort();
	memset(page, 0, sizeof(*page));
	for (unsigned int i = 0; i < STEPS && b.left; i++)
		doings[fuzz_take(&b, 1) % 4](&b);
	return 0;
}
