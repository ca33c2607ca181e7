// SPDX-License-Identifier: MIT
#include "xrc/xrc_page.h"
#include <string.h>

struct xrc_shared *xrc_page_find(struct xrc_page *page, uint32_t qpn, uint32_t *index)
{
	uint32_t reach = load_relaxed(&page->reach);

	for (uint32_t k = 0; k <= reach && k < XRC_TARGETS; k++) {
		uint32_t i = (qpn + k) % XRC_TARGETS;

		/* pairs with the store at creation */
		if (load_acquire(&page->target[i].qpn) == qpn) {
			*index = i;
			return &page->target[i];
		}
	}
	return NULL;
}

bool xrc_page_place(struct xrc_page *page, uint32_t qpn, uint32_t *index)
{
	for (uint32_t k = 0; k < XRC_TARGETS; k++) {
		uint32_t i = (qpn + k) % XRC_TARGETS;

		if (load_relaxed(&page->target[i].qpn))
			continue;
		if (load_relaxed(&page->reach) < k)
			store_relaxed(&page->reach, k);
		*index = i;
		return true;
	}
	return false;
}

void xrc_page_begin(struct xrc_shared *t, uint32_t qpn)
{
	memset(&t->state, 0, sizeof(t->state));
	memset(t->holders, 0, sizeof(t->holders));
	t->state.state = IBV_QPS_RESET;
	t->died = 0;
	t->moves++;
	t->gen++;
	store_release(&t->qpn, qpn); /* pairs with xrc_page_find() */
}

void xrc_page_inherit(struct xrc_page *page, uint32_t me, uint32_t before)
{
	for (uint32_t i = 0; i < XRC_TARGETS; i++) {
		struct xrc_shared *t = &page->target[i];
		uint32_t turn = before;

		fetch_and_acq_rel(&t->holders[me / 64], ~(UINT64_C(1) << me % 64));
		if (before && load_relaxed(&t->turn) == before) {
			t->state.state = IBV_QPS_ERR;
			t->died = before;
			t->moves++;
			cas_acq_rel(&t->turn, &turn, 0);
		}
	}
}
