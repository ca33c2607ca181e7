// SPDX-License-Identifier: MIT
#include "hca/tag_list.h"
#include <errno.h>
#include <stdlib.h>
#include "hca/cq.h"

int tag_list_create(struct cq *cq, uint32_t n, struct tag_list **out)
{
	struct tag_list *t = calloc(1, sizeof(*t) + n * sizeof(t->e[0]));

	if (!t)
		return ENOMEM;
	t->cq = cq;
	t->n = n;
	list_init(&t->listed);
	cq_get(cq);
	*out = t;
	return 0;
}

void tag_list_destroy(struct tag_list *t)
{
	if (t)
		cq_put(t->cq);
	free(t);
}

void tag_list_sync(struct tag_list *t, uint16_t count)
{
	struct list *at;

	t->synced = count;
	if (t->synced != t->unexpected)
		return;
	list_for_each(at, &t->listed) container_of(at, struct tag_entry, node)->active = true;
}

void tag_list_add(struct tag_list *t, const struct tag_ask *ask)
{
	struct tag_entry *e = &t->e[ask->slot];

	e->tag = ask->tag;
	e->mask = ask->mask;
	e->nsge = ask->nsge;
	for (unsigned int i = 0; i < ask->nsge; i++)
		e->sge[i] = ask->sge[i];
	e->listed = true;
	e->active = t->synced == t->unexpected;
	list_add_tail(&t->listed, &e->node);
}

bool tag_list_del(struct tag_list *t, uint16_t slot)
{
	struct tag_entry *e = &t->e[slot];

	if (!e->listed)
		return false;
	list_del(&e->node);
	e->listed = false;
	return true;
}

bool tag_list_match(struct tag_list *t, uint64_t tag, struct rwqe *out)
{
	struct list *at;

	list_for_each(at, &t->listed)
	{
		struct tag_entry *e = container_of(at, struct tag_entry, node);

		if (!e->active || (tag & e->mask) != e->tag)
			continue;
		list_del(&e->node);
		e->listed = false;
		out->idx = (uint16_t)(e - t->e);
		out->nsge = e->nsge;
		out->len = 0;
		for (unsigned int i = 0; i < e->nsge; i++) {
			out->sge[i] = e->sge[i];
			out->len += e->sge[i].len;
		}
		return true;
	}
	return false;
}
