// SPDX-License-Identifier: MIT
#include "cm/cm_far.h"
#include <stdlib.h>
#include <string.h>
#include "cm/cm_watch.h"
#include "util/clock.h"

#define ASK_NS	 UINT64_C(2000000000)
#define DOUBT_NS UINT64_C(300000000)

struct cm_far {
	struct list node; /* in cm.fars */
	union ibv_gid host;
	unsigned int slot;
	struct list ids;
	struct timer timer;
	void (*ask)(struct cm_id *id);
	bool gone; /* an id has ended for it, and none was found alive since */
};

/* An id that got no answer last time is alive: the next one's turn. */
static struct cm_id *whose_turn(struct cm_far *f)
{
	struct cm_id *id = container_of(f->ids.next, struct cm_id, far_node);

	if (id->fsm.asked) {
		f->gone = false;
		list_del(&id->far_node);
		list_add_tail(&f->ids, &id->far_node);
	}
	return container_of(f->ids.next, struct cm_id, far_node);
}

static void on_timer(struct timer *t, uint64_t now)
{
	struct cm_far *f = container_of(t, struct cm_far, timer);

	cm_timer(&f->timer, now + ASK_NS);
	f->ask(whose_turn(f));
}

static struct cm_far *find(const struct cm_id *id)
{
	unsigned int slot = gsi_slot(id->fsm.remote_id);
	struct list *pos;

	list_for_each(pos, &cm.fars)
	{
		struct cm_far *f = container_of(pos, struct cm_far, node);

		if (f->slot == slot && !memcmp(&f->host, &id->way.dgid, sizeof(f->host)))
			return f;
	}
	return NULL;
}

static struct cm_far *make(const struct cm_id *id, void (*ask)(struct cm_id *id))
{
	struct cm_far *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL; /* then nobody asks */
	f->host = id->way.dgid;
	f->slot = gsi_slot(id->fsm.remote_id);
	f->ask = ask;
	list_init(&f->ids);
	timer_init(&f->timer, on_timer);
	list_add_tail(&cm.fars, &f->node);
	cm_timer(&f->timer, clock_now() + ASK_NS);
	return f;
}

void cm_far_follow(struct cm_id *id, void (*ask)(struct cm_id *id))
{
	struct cm_far *f = id->far;

	if (!id->way.net || id->fsm.state != CM_ESTABLISHED) {
		if (f && id->fsm.deaths) {
			f->gone = true;
			cm_timer(&f->timer, clock_now());
		}
		cm_far_leave(id);
		return;
	}
	if (!f) {
		f = find(id);
		id->far = f ? f : make(id, ask);
		if (id->far)
			list_add_tail(&id->far->ids, &id->far_node);
	} else if (id->fsm.deaths) { /* once is not enough */
		cm_timer(&f->timer, clock_now() + (f->gone ? 0 : DOUBT_NS));
	}
}

void cm_far_leave(struct cm_id *id)
{
	struct cm_far *f = id->far;

	id->far = NULL;
	list_del(&id->far_node);
	if (!f || !list_empty(&f->ids))
		return;
	cm_timer(&f->timer, UINT64_MAX);
	list_del(&f->node);
	free(f);
}
