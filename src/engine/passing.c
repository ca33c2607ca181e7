// SPDX-License-Identifier: MIT
#include "engine/passing.h"
#include <errno.h>
#include <stdlib.h>
#include "link/parcel.h"

struct passing { /* the packets for one process */
	struct waiter w;
	struct node *n;
	struct passing *next;
	struct dest *to; /* a reference */
	struct parcel *first, **end;
	bool sending; /* a thread is in go_on() */
	bool resumed; /* meanwhile */
};

static uint32_t bytes_of(const struct parcel *p)
{
	return (uint32_t)sizeof(*p) + p->seg.len;
}

/* Under the lock. NULL: nothing waits for @to. */
static struct passing *find(struct node *n, const struct dest *to)
{
	struct passing *p = n->passing.all;

	while (p && p->to != to)
		p = p->next;
	return p;
}

/* Under the lock. False: there is no room, or no memory. */
static bool keep(struct passing *p, const struct seg *s)
{
	struct parcel *kept;

	if (p->n->passing.bytes + s->len > PASSING_BYTES || parcel_make(s, false, &kept))
		return false;
	kept->next = NULL;
	*p->end = kept;
	p->end = &kept->next;
	p->n->passing.bytes += bytes_of(kept);
	return true;
}

/* The next packet to send; NULL: there is none any more, and @p is off the list. */
static struct parcel *first(struct passing *p)
{
	struct node *n = p->n;
	struct passing **at = &n->passing.all;
	struct parcel *next;

	spin_lock(&n->passing.lock);
	next = p->first;
	if (!next) {
		while (*at != p)
			at = &(*at)->next;
		*at = p->next;
	}
	spin_unlock(&n->passing.lock);
	return next;
}

static void drop_first(struct passing *p)
{
	struct parcel *gone;

	spin_lock(&p->n->passing.lock);
	gone = p->first;
	p->first = gone->next;
	if (!p->first)
		p->end = &p->first;
	p->n->passing.bytes -= bytes_of(gone);
	spin_unlock(&p->n->passing.lock);
	parcel_free(gone);
}

/* False: another thread sends, and will look once more. */
static bool begin_sending(struct passing *p)
{
	struct node *n = p->n;
	bool begun;

	spin_lock(&n->passing.lock);
	begun = !p->sending;
	p->sending = true;
	p->resumed = !begun;
	spin_unlock(&n->passing.lock);
	return begun;
}

/* False: there may be room by now. */
static bool end_sending(struct passing *p)
{
	struct node *n = p->n;
	bool ended;

	spin_lock(&n->passing.lock);
	ended = !p->resumed;
	p->sending = !ended;
	p->resumed = false;
	spin_unlock(&n->passing.lock);
	return ended;
}

/* By the thread that made @p, and then by the one that the link calls resume() in; that may be
 * while the other's dest_send() still uses the waiter and the packet. */
static void go_on(struct passing *p)
{
	struct parcel *next;

	if (!begin_sending(p))
		return;
	while ((next = first(p))) {
		if (dest_send(p->to, &next->seg, &p->w) != EAGAIN)
			drop_first(p); /* sent, or the process has ended */
		else if (end_sending(p))
			return; /* another thread may have @p by now */
	}
	p->to->ops->put(p->to);
	free(p);
}

static void resume(struct waiter *w)
{
	go_on(container_of(w, struct passing, w));
}

/* NULL: no memory. */
static struct passing *begin(struct node *n, struct dest *to, const struct seg *s)
{
	struct passing *p = malloc(sizeof(*p));
	bool kept;

	if (!p)
		return NULL;
	*p = (struct passing){ .w.resume = resume, .n = n, .to = to, .end = &p->first };
	list_init(&p->w.node);
	spin_lock(&n->passing.lock);
	kept = keep(p, s);
	if (kept) {
		p->next = n->passing.all;
		n->passing.all = p;
	}
	spin_unlock(&n->passing.lock);
	if (kept)
		return p;
	free(p);
	return NULL;
}

void passing_send(struct node *n, struct dest *to, const struct seg *s)
{
	struct passing *p;

	spin_lock(&n->passing.lock);
	p = find(n, to);
	if (p)
		keep(p, s);
	spin_unlock(&n->passing.lock);
	if (!p && dest_send(to, s, NULL) == EAGAIN) {
		p = begin(n, to, s);
		if (p) {
			go_on(p);
			return;
		}
	}
	to->ops->put(to);
}
