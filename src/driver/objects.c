// SPDX-License-Identifier: MIT
#include "driver/objects.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include "obs/explain.h"
#include "util/barrier.h"

/* Two levels, so that a growing table never moves: readers take no lock. */
#define LEAF 4096
#define ROOT 4096 /* LEAF * ROOT: 24 bits */

struct object {
	void *obj;
	uint32_t kind;
};

static struct object *leaves[ROOT];
static uint32_t next = 1, used;
/* Guards next, used, all stores. Innermost, so that a fork may take it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void lock_take(void)
{
	pthread_mutex_lock(&lock);
}

static void lock_drop(void)
{
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_take, lock_drop, lock_drop);
}

static struct object *leaf_of(uint32_t uidx)
{
	struct object **leaf = &leaves[uidx / LEAF];

	if (!*leaf)
		store_release(leaf, calloc(LEAF, sizeof(**leaf))); /* (A) */
	return *leaf;
}

/* The next free index after the last one handed out; NULL: none, or no memory. */
static struct object *find_free(uint32_t *uidx)
{
	if (used == LEAF * ROOT - 1)
		return NULL;
	for (;; next++) {
		struct object *leaf;

		next %= LEAF * ROOT;
		next += !next; /* 0 names nothing */
		leaf = leaf_of(next);
		if (!leaf)
			return NULL;
		if (leaf[next % LEAF].kind == OBJECT_NONE)
			break;
	}
	*uidx = next++;
	return &leaves[*uidx / LEAF][*uidx % LEAF];
}

static int refused(enum object_kind kind)
{
	static const char *const call[] = { [OBJECT_QP] = "ibv_create_qp",
					    [OBJECT_SRQ] = "ibv_create_srq",
					    [OBJECT_WQ] = "ibv_create_wq" };

	return refuse(ENOMEM, "%s: no memory or no number left for one more queue; destroy some",
		      call[kind]);
}

int objects_add(enum object_kind kind, void *obj, uint32_t *uidx)
{
	struct object *o;

	pthread_once(&once, watch_forks);
	lock_take();
	o = find_free(uidx);
	if (o) {
		o->obj = obj;
		store_release(&o->kind, kind); /* (B) */
		used++;
	}
	lock_drop();
	return o ? 0 : refused(kind);
}

void objects_del(uint32_t uidx)
{
	lock_take();
	store_release(&leaves[uidx / LEAF][uidx % LEAF].kind, OBJECT_NONE);
	used--;
	lock_drop();
}

void *objects_get(uint32_t uidx, enum object_kind *kind)
{
	struct object *leaf =
		uidx < LEAF * ROOT ? load_acquire(&leaves[uidx / LEAF]) : NULL; /* (A) */

	if (!leaf)
		return NULL;
	*kind = load_acquire(&leaf[uidx % LEAF].kind); /* (B) */
	return *kind == OBJECT_NONE ? NULL : leaf[uidx % LEAF].obj;
}
