// SPDX-License-Identifier: MIT
#include "xrc/xrc_srq.h"
#include <errno.h>
#include "obs/explain.h"
#include "util/fork.h"
#include "xrc/xrc_srq_table.h"
#include "xrc/xrc_target.h"

int xrc_srq_create(struct pd *pd, struct srq_attr *attr, struct srq **out)
{
	struct node *n = node_self();
	int err = xrcd_use(attr->xrcd, "ibv_create_srq_ex");

	if (err)
		return err;
	if (!n || xrc_srq_table_take(n, &attr->srqn))
		return refuse(
			ENOMEM,
			"ibv_create_srq_ex: no memory or no number left for an SRQ; destroy some");
	err = srq_create(pd, attr, out);
	if (err)
		xrc_srq_table_give(attr->srqn);
	else
		xrc_srq_table_set(n, attr->srqn, *out);
	return err;
}

int xrc_srq_destroy(struct srq *srq)
{
	if (fork_is_ours(srq->epoch)) {
		xrc_srq_table_set(node_self(), srq->srqn, NULL);
		quiesce_wait();
		xrc_target_forget_srq(srq->xrcd->domain, srq);
		xrc_srq_table_give(srq->srqn);
	}
	return srq_destroy(srq);
}
