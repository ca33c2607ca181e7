// SPDX-License-Identifier: MIT
#include "driver/arms.h"
#include "util/fork.h"
#include "util/quiesce.h"

enum { PLACES = 64 };

#define ARM_RECORD 1 /* of the two of a CQ */
#define SOLICIT	   (1U << 24) /* in the arm record */
#define CI_MASK	   0xffffffU
#define NO_ARM	   0xffffffffU /* in the arm record: no program's, whose highest bits are 0 */

static struct dcq *told[PLACES]; /* by number, modulo their count; each is atomic */

void arms_none(struct dcq *cq)
{
	store_relaxed(&cq->dbrec[ARM_RECORD], NO_ARM);
}

bool arms_take(struct dcq *cq)
{
	uint32_t arm = load_relaxed(&cq->dbrec[ARM_RECORD]);

	if (arm == NO_ARM)
		return false;
	arm = xchg_acq_rel(&cq->dbrec[ARM_RECORD], NO_ARM);
	if (arm == NO_ARM) /* another thread has taken it */
		return false;
	arm = be32toh(arm);
	cq_arm_since(cq->dev, arm & SOLICIT, arm & CI_MASK);
	return true;
}

void arms_add(struct dcq *cq)
{
	struct dcq *none = NULL;

	cas_acq_rel(&told[cq->dev->cqn % PLACES], &none, cq);
}

void arms_del(struct dcq *cq)
{
	struct dcq *is = cq;

	if (cas_acq_rel(&told[cq->dev->cqn % PLACES], &is, NULL))
		quiesce_wait();
}

bool arms_by_number(uint32_t cqn)
{
	struct dcq *cq;
	bool found;

	quiesce_enter(); /* pairs with arms_del() */
	cq = load_acquire(&told[cqn % PLACES]);
	found = cq && cq->dev->cqn == cqn && fork_is_ours(cq->epoch);
	if (found)
		arms_take(cq);
	quiesce_exit();
	return found;
}
