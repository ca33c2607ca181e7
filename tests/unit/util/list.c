// SPDX-License-Identifier: MIT
#include "test.h"
#include "util/list.h"

struct item {
	int n;
	struct list node;
};

static int number(const struct list *l)
{
	return container_of(l, const struct item, node)->n;
}

static void check_order(const struct list *head, const char *want)
{
	char got[16] = "";
	const struct list *pos;
	size_t n = 0;

	list_for_each(pos, head) got[n++] = (char)('0' + number(pos));
	check_str(got, want);
	for (pos = head->prev; pos != head; pos = pos->prev)
		check_eq('0' + number(pos), got[--n]);
	check_eq(n, 0);
}

static void fill(struct list *head, struct item *items, int first, int n)
{
	list_init(head);
	for (int i = 0; i < n; i++) {
		items[i].n = first + i;
		list_add_tail(head, &items[i].node);
	}
}

TEST(order_is_that_of_adding)
{
	struct item items[4], front = { .n = 9 };
	struct list head;

	fill(&head, items, 0, 4);
	check_order(&head, "0123");
	list_add(&head, &front.node);
	check_order(&head, "90123");
	check_eq(list_first_entry(&head, struct item, node)->n, 9);
}

TEST(deleting_twice_is_harmless)
{
	struct item items[3];
	struct list head;

	fill(&head, items, 0, 3);
	list_del(&items[1].node);
	list_del(&items[1].node);
	check(list_empty(&items[1].node));
	check_order(&head, "02");
	list_del(&items[0].node);
	list_del(&items[2].node);
	check(list_empty(&head));
}

TEST(safe_walk_survives_deleting_each)
{
	struct item items[5];
	struct list head, *pos, *tmp;
	int seen = 0;

	fill(&head, items, 0, 5);
	list_for_each_safe(pos, tmp, &head)
	{
		check_eq(number(pos), seen++);
		list_del(pos);
	}
	check_eq(seen, 5);
	check(list_empty(&head));
}

TEST(splice_moves_all_and_empties_the_source)
{
	struct item a[2], b[3];
	struct list to, from;

	fill(&to, a, 0, 2);
	fill(&from, b, 2, 3);
	list_splice_tail(&to, &from);
	check_order(&to, "01234");
	check(list_empty(&from));
	list_splice_tail(&to, &from);
	check_order(&to, "01234");
}

RUN_TESTS(unit_test(order_is_that_of_adding), unit_test(deleting_twice_is_harmless),
	  unit_test(safe_walk_survives_deleting_each),
	  unit_test(splice_moves_all_and_empties_the_source))
