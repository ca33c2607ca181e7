// SPDX-License-Identifier: MIT
#include "engine/inbox.h"

void inbox_put(struct eqp *e, struct parcel *p)
{
	p->next = NULL;
	spin_lock(&e->inbox_lock);
	*e->inbox_end = p;
	e->inbox_end = &p->next;
	store_relaxed(&e->inbox_len, e->inbox_len + 1);
	spin_unlock(&e->inbox_lock);
}

struct parcel *inbox_take_all(struct eqp *e)
{
	struct parcel *list;

	spin_lock(&e->inbox_lock);
	list = e->inbox;
	e->inbox = NULL;
	e->inbox_end = &e->inbox;
	store_relaxed(&e->inbox_len, 0);
	spin_unlock(&e->inbox_lock);
	return list;
}
