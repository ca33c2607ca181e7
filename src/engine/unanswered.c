// SPDX-License-Identifier: MIT
#include "engine/unanswered.h"
#include <errno.h>

static void push(struct node *n, struct parcel *p)
{
	p->next = load_relaxed(&n->unanswered);
	while (!cas_acq_rel(&n->unanswered, &p->next, p))
		;
}

void unanswered_put(struct node *n, const struct seg *s)
{
	struct seg bare = *s;
	struct parcel *p;

	bare.len = 0;
	bare.npieces = 0;
	bare.pieces = NULL;
	bare.data = NULL;
	if (fetch_add_relaxed(&s->from->unanswered, 1) < UNANSWERED_MAX &&
	    !parcel_make(&bare, false, &p))
		push(n, p);
	else
		fetch_sub_acq_rel(&s->from->unanswered, 1);
}

void unanswered_later(struct tqp *q, const struct seg *s)
{
	unanswered_put(to_eqp(q)->node, s);
}

void unanswered_tell(struct node *n)
{
	const struct dest *full = NULL; /* one that has no room: the next of it need not ask */
	struct parcel *next;

	for (struct parcel *p = xchg_acq_rel(&n->unanswered, NULL); p; p = next) {
		next = p->next;
		if (p->seg.from == full || tqp_no_responder(&p->seg, GROUNDS_NONE) == EAGAIN) {
			full = p->seg.from;
			push(n, p);
			continue;
		}
		fetch_sub_acq_rel(&p->seg.from->unanswered, 1);
		parcel_free(p);
	}
}
