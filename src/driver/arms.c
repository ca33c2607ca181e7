// SPDX-License-Identifier: MIT
#include "driver/arms.h"
#include <sys/mman.h>
#include "util/quiesce.h"

enum { PLACES = 64 };

#define ARM_RECORD 1 /* of the two of a CQ */
#define SOLICIT	   (1U << 24) /* in the arm record */
#define CI_MASK	   0xffffffU
#define NO_ARM	   0xffffffffU /* in the arm record: no program's, whose highest bits are 0 */

/* PLACES, by number modulo their count, each atomic; NULL until there is one. A forked child finds
 * them empty (MADV_WIPEONFORK). */
static struct dcq **told;

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

/* Without memory it stays NULL, and the engine thread arms. */
static void make_places(void)
{
	size_t size = PLACES * sizeof(*told);
	struct dcq **none = NULL;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	if (madvise(p, size, MADV_WIPEONFORK) || !cas_acq_rel(&told, &none, p)) /* (A) */
		munmap(p, size);
}

/* The place of CQ @cqn; NULL: there is none. */
static struct dcq **place(uint32_t cqn)
{
	struct dcq **all = load_acquire(&told); /* (A) */

	return all ? &all[cqn % PLACES] : NULL;
}

void arms_add(struct dcq *cq)
{
	struct dcq **at, *none = NULL;

	if (!place(0))
		make_places();
	at = place(cq->dev->cqn);
	if (at)
		cas_acq_rel(at, &none, cq);
}

void arms_del(struct dcq *cq)
{
	struct dcq **at = place(cq->dev->cqn), *is = cq;

	if (at && cas_acq_rel(at, &is, NULL))
		quiesce_wait();
}

bool arms_by_number(uint32_t cqn)
{
	struct dcq **at = place(cqn), *cq;
	bool found;

	if (!at)
		return false;
	quiesce_enter(); /* pairs with arms_del() */
	cq = load_acquire(at);
	found = cq && cq->dev->cqn == cqn;
	if (found)
		arms_take(cq);
	quiesce_exit();
	return found;
}
