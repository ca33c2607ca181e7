// SPDX-License-Identifier: MIT
#include "engine/unanswered.h"
#include <errno.h>

void unanswered_put(struct node *n, const struct seg *s)
{
	struct seg bare = *s;
	struct parcel *p;

	bare.len = 0;
	bare.npieces = 0;
	bare.pieces = NULL;
	bare.data = NULL;
	if (parcel_make(&bare, false, &p))
		return;
	p->next = load_relaxed(&n->unanswered);
	while (!cas_acq_rel(&n->unanswered, &p->next, p))
		;
}

void unanswered_later(struct tqp *q, const struct seg *s)
{
	unanswered_put(to_eqp(q)->node, s);
}

void unanswered_tell(struct node *n)
{
	struct parcel *next;

	for (struct parcel *p = xchg_acq_rel(&n->unanswered, NULL); p; p = next) {
		next = p->next;
		if (tqp_no_responder(&p->seg, GROUNDS_NONE) == EAGAIN)
			unanswered_put(n, &p->seg);
		parcel_free(p);
	}
}
