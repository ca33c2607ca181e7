// SPDX-License-Identifier: MIT
/* Intrusive doubly linked list: a circle through its head. An entry that list_init() or list_del()
 * touched last points to itself, so deleting twice is harmless and list_empty(&entry->node) tells
 * whether it is on a list. Not thread safe: the owner's lock guards it. */
#pragma once
#include "util/barrier.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_insert(struct list *n, struct list *prev, struct list *next)
{
	n->prev = prev;
	n->next = next;
	prev->next = n;
	next->prev = n;
}

/* @n becomes the first; it must not be on a list. */
static inline void list_add(struct list *head, struct list *n)
{
	list_insert(n, head, head->next);
}

/* @n becomes the last; it must not be on a list. */
static inline void list_add_tail(struct list *head, struct list *n)
{
	list_insert(n, head->prev, head);
}

static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/* Moves all entries of @from, in order, to the end of @to. */
static inline void list_splice_tail(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	from->prev->next = to;
	to->prev->next = from->next;
	to->prev = from->prev;
	list_init(from);
}

/* The list must not be empty. */
#define list_first_entry(head, type, member) container_of((head)->next, type, member)

/* @pos is a struct list *. */
#define list_for_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)

/* @pos may be deleted in the body; @tmp is a second struct list *. */
#define list_for_each_safe(pos, tmp, head)                                                         \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head);                           \
	     (pos) = (tmp), (tmp) = (pos)->next)
