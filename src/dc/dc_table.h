// SPDX-License-Identifier: MIT
/* The connections of a DC target, by initiator. Intrusive: an entry is the owner's. Pure, no lock:
 * the target's lock guards it. All zero is an empty table. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { DC_BUCKETS = 128 };

struct dc_from { /* an initiator */
	uint8_t gid[16]; /* of its host; zeros: this host */
	uint32_t qpn;
};

struct dc_entry {
	struct dc_entry *next; /* of its bucket */
	struct dc_from from;
};

struct dc_table {
	struct dc_entry *bucket[DC_BUCKETS];
	uint32_t count;
};

struct dc_entry *dc_table_find(const struct dc_table *t, const struct dc_from *from);
void dc_table_add(struct dc_table *t, struct dc_entry *e); /* e->from is set, and not in it yet */
void dc_table_del(struct dc_table *t, struct dc_entry *e);
/* The entry behind @e; NULL: none. Begins with NULL. */
struct dc_entry *dc_table_next(const struct dc_table *t, const struct dc_entry *e);
bool dc_table_same(const struct dc_from *a, const struct dc_from *b);
