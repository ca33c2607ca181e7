// SPDX-License-Identifier: MIT
#include "xrc/xrc_srq_table.h"
#include <errno.h>
#include <stdlib.h>
#include "hca/numbers.h"

NUMBERS(xrc_srqns, NUMBER_INDEXES);

static int table_make(struct node *n)
{
	int err = 0;

	mutex_lock(&n->lock);
	if (!n->xrc_srqs) {
		struct srq **t = calloc(NUMBER_INDEXES, sizeof(struct srq *));

		if (t)
			store_release(&n->xrc_srqs, t); /* pairs with xrc_srq_table_find() */
		else
			err = ENOMEM;
	}
	mutex_unlock(&n->lock);
	return err;
}

int xrc_srq_table_take(struct node *n, uint32_t *srqn)
{
	uint32_t index;

	if (table_make(n) || numbers_take(&xrc_srqns, &index))
		return ENOMEM;
	*srqn = number_make(host_first_slot(n->host), index);
	return 0;
}

void xrc_srq_table_give(uint32_t srqn)
{
	numbers_give(&xrc_srqns, number_index(srqn));
}

void xrc_srq_table_set(struct node *n, uint32_t srqn, struct srq *srq)
{
	store_release(&n->xrc_srqs[number_index(srqn)], srq); /* pairs with xrc_srq_table_find() */
}

struct srq *xrc_srq_table_find(struct node *n, uint32_t srqn)
{
	struct srq **t = load_acquire(&n->xrc_srqs);

	if (!t || number_slot(srqn) != host_first_slot(n->host))
		return NULL;
	return load_acquire(&t[number_index(srqn)]); /* pairs with xrc_srq_table_set() */
}
