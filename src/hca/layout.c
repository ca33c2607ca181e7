// SPDX-License-Identifier: MIT
#include "hca/layout.h"
#include "hca/key_table.h"

static struct span list_span(const struct span *s, uint64_t off, uint64_t len)
{
	uint64_t left;

	while (off >= s->len)
		off -= s++->len;
	left = s->len - off;
	return (struct span){ s->addr + off, left < len ? left : len };
}

struct span layout_span(const struct key_entry *e, uint64_t off, uint64_t len, bool store)
{
	switch (layout_of(e->flags)) {
	case LAYOUT_NULL:
		return (struct span){ store ? e->iova : e->addr, len };
	case LAYOUT_LIST:
		return list_span((const struct span *)(uintptr_t)e->addr, off, len);
	case LAYOUT_FLAT:
	case LAYOUT_INDIRECT:
		break;
	}
	return (struct span){ e->addr + off, len };
}
