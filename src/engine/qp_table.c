// SPDX-License-Identifier: MIT
#include "engine/qp_table.h"
#include <errno.h>
#include <stdlib.h>
#include "obs/explain.h"
#include "util/secret.h"

/* Where the numbers begin: packets on the way to an earlier process of this slot, and peers that do
 * not know yet that it has ended, should not meet the first queue pairs of this one. */
static uint32_t first_index(void)
{
	uint32_t random = 0;

	if (secret_fill(&random, sizeof(random)))
		return FIRST_INDEX; /* there is none here */
	return FIRST_INDEX + random % (NUMBER_INDEXES - FIRST_INDEX);
}

static int block_add(struct node *n, unsigned int slot, const char *call)
{
	struct block *b = calloc(1, sizeof(*b));

	if (!b || bitmap_init(&b->used, FIRST_INDEX, NUMBER_INDEXES - FIRST_INDEX)) {
		free(b);
		return refuse_memory(call, sizeof(*b));
	}
	bitmap_begin_at(&b->used, first_index());
	store_release(&n->blocks[slot], b); /* pairs with node_qp() */
	return 0;
}

int qp_table_begin(struct node *n)
{
	return block_add(n, host_first_slot(n->host), "ibv_open_device");
}

void qp_table_end(struct node *n)
{
	for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++) {
		if (!n->blocks[slot])
			continue;
		bitmap_fini(&n->blocks[slot]->used);
		free(n->blocks[slot]);
	}
}

static bool take_from(struct node *n, unsigned int slot, uint32_t *qpn)
{
	struct block *b = n->blocks[slot];
	uint32_t index;

	if (!b || bitmap_alloc(&b->used, &index))
		return false;
	*qpn = number_make(slot, index);
	return true;
}

static bool take(struct node *n, uint32_t *qpn)
{
	for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++)
		if (take_from(n, slot, qpn))
			return true;
	return false;
}

int qp_table_spare(struct node *n, uint32_t *qpn)
{
	bool taken;

	mutex_lock(&n->lock);
	taken = take(n, qpn);
	mutex_unlock(&n->lock);
	return taken ? 0 : ENOSPC;
}

/* Outside node->lock, which sections wait for: the slot is taken under host->control, whose holder
 * may be waiting until those sections have ended. */
static int grow(struct node *n)
{
	unsigned int slot;
	int err = host_take_slot(n->host, &slot);

	if (err)
		return err;
	mutex_lock(&n->lock);
	err = block_add(n, slot, "ibv_create_qp");
	mutex_unlock(&n->lock);
	return err;
}

int qp_table_take(struct node *n, uint32_t *qpn)
{
	int err = 0;

	mutex_lock(&n->grow_lock);
	while (!err && qp_table_spare(n, qpn))
		err = grow(n);
	mutex_unlock(&n->grow_lock);
	return err;
}

void qp_table_give(struct node *n, uint32_t qpn)
{
	mutex_lock(&n->lock);
	bitmap_free(&n->blocks[number_slot(qpn)]->used, number_index(qpn));
	mutex_unlock(&n->lock);
}

void qp_table_set(struct node *n, uint32_t qpn, struct eqp *e)
{
	/* pairs with node_qp() */
	store_release(&n->blocks[number_slot(qpn)]->qp[number_index(qpn)], e);
}

struct eqp *qp_table_next(struct node *n, uint32_t *at)
{
	struct eqp *e = NULL;

	while (!e && *at < NUMBER_SLOTS * NUMBER_INDEXES) {
		struct block *b = load_acquire(&n->blocks[*at / NUMBER_INDEXES]); /* as node_qp() */

		e = b ? load_acquire(&b->qp[*at % NUMBER_INDEXES]) : NULL;
		*at += b ? 1 : NUMBER_INDEXES;
	}
	return e;
}
