// SPDX-License-Identifier: MIT
#include "dc/dc_table.h"
#include <stddef.h>
#include <string.h>

static unsigned int bucket_of(const struct dc_from *from)
{
	uint64_t x = from->qpn;

	for (unsigned int i = 0; i < sizeof(from->gid); i++)
		x = (x ^ from->gid[i]) * UINT64_C(0x100000001b3);
	return (unsigned int)(x ^ x >> 32) % DC_BUCKETS;
}

bool dc_table_same(const struct dc_from *a, const struct dc_from *b)
{
	return a->qpn == b->qpn && !memcmp(a->gid, b->gid, sizeof(a->gid));
}

struct dc_entry *dc_table_find(const struct dc_table *t, const struct dc_from *from)
{
	struct dc_entry *e = t->bucket[bucket_of(from)];

	while (e && !dc_table_same(&e->from, from))
		e = e->next;
	return e;
}

void dc_table_add(struct dc_table *t, struct dc_entry *e)
{
	struct dc_entry **b = &t->bucket[bucket_of(&e->from)];

	e->next = *b;
	*b = e;
	t->count++;
}

void dc_table_del(struct dc_table *t, struct dc_entry *e)
{
	struct dc_entry **p = &t->bucket[bucket_of(&e->from)];

	while (*p != e)
		p = &(*p)->next;
	*p = e->next;
	t->count--;
}

struct dc_entry *dc_table_next(const struct dc_table *t, const struct dc_entry *e)
{
	unsigned int i = 0;

	if (e && e->next)
		return e->next;
	if (e)
		i = bucket_of(&e->from) + 1;
	while (i < DC_BUCKETS && !t->bucket[i])
		i++;
	return i < DC_BUCKETS ? t->bucket[i] : NULL;
}
