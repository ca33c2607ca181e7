// SPDX-License-Identifier: MIT
#include "engine/xrc_srq.h"
#include <errno.h>
#include <stdlib.h>
#include "engine/xrc_target.h"
#include "hca/numbers.h"
#include "obs/explain.h"
#include "util/fork.h"

NUMBERS(xrc_srqns, NUMBER_INDEXES);

static int table_make(struct node *n)
{
	int err = 0;

	pthread_mutex_lock(&n->lock);
	if (!n->xrc_srqs) {
		struct srq **t = calloc(NUMBER_INDEXES, sizeof(struct srq *));

		if (t)
			store_release(&n->xrc_srqs, t); /* pairs with xrc_srq_find() */
		else
			err = ENOMEM;
	}
	pthread_mutex_unlock(&n->lock);
	return err;
}

int xrc_srq_create(struct pd *pd, struct srq_attr *attr, struct srq **out)
{
	struct node *n = node_self();
	int err = xrcd_use(attr->xrcd, "ibv_create_srq_ex");
	uint32_t index;

	if (err)
		return err;
	if (!n || table_make(n) || numbers_take(&xrc_srqns, &index))
		return refuse(ENOMEM, "ibv_create_srq_ex: no memory or no number left for an SRQ");
	attr->srqn = number_make(host_first_slot(n->host), index);
	err = srq_create(pd, attr, out);
	if (err)
		numbers_give(&xrc_srqns, index);
	else
		store_release(&n->xrc_srqs[index], *out); /* xrc_srq_find() */
	return err;
}

int xrc_srq_destroy(struct srq *srq)
{
	struct node *n = node_self();
	uint32_t index = number_index(srq->srqn);
	bool ours = fork_is_ours(srq->epoch);

	if (ours) {
		store_release(&n->xrc_srqs[index], NULL);
		quiesce_wait();
		xrc_target_forget_srq(srq->xrcd->domain, srq);
		numbers_give(&xrc_srqns, index);
	}
	return srq_destroy(srq);
}

struct srq *xrc_srq_find(struct node *n, uint32_t srqn)
{
	struct srq **t = load_acquire(&n->xrc_srqs);

	if (!t || number_slot(srqn) != host_first_slot(n->host))
		return NULL;
	return load_acquire(&t[number_index(srqn)]); /* pairs with xrc_srq_create() */
}
