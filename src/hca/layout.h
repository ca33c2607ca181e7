// SPDX-License-Identifier: MIT
/* Layouts: where the bytes that a key covers lie. A key's entry (key_table.h) says which addresses
 * it covers and with which rights; its layout turns an offset into that range into a span of this
 * process's memory. The caller asks again behind the span until it has all bytes, so a layout keeps
 * no state between two calls. docs/design/memory-kinds.md tells why. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum layout {
	LAYOUT_FLAT, /* the bytes lie side by side: key_check() decides it inline */
	LAYOUT_NULL, /* the same bytes for every offset: zeros to read, or a sink to write to */
	LAYOUT_LIST, /* the bytes of an array of spans, which stands at key_entry.addr */
	LAYOUT_INDIRECT, /* parts of other keys: the struct mkey_layout at key_entry.addr */
};

/* Where the layout stands in key_entry.flags */
enum { LAYOUT_SHIFT = 4, LAYOUT_MASK = 3 << LAYOUT_SHIFT };

static inline enum layout layout_of(uint32_t flags)
{
	return (enum layout)((flags & LAYOUT_MASK) >> LAYOUT_SHIFT);
}

/* Bytes that lie side by side */
struct span {
	uint64_t addr;
	uint64_t len; /* bytes */
};

struct key_entry;

/* The span that begins at byte @off of the range that @e covers, at most @len bytes of it; the
 * caller has checked that they lie within the range. @store: the bytes will be written. Not for
 * LAYOUT_INDIRECT, whose bytes the keys beneath find. */
struct span layout_span(const struct key_entry *e, uint64_t off, uint64_t len, bool store);
