// SPDX-License-Identifier: MIT
/* Object indices: what a CQE names. One table for the process. */
#include "driver/objects.h"
#include "test.h"

enum { MANY = 10000 }; /* more than a leaf of the table */

TEST(an_index_names_its_object_and_kind)
{
	int qp, srq, wq;
	uint32_t a, b, c;
	enum object_kind kind;

	check_eq(objects_add(OBJECT_QP, &qp, &a), 0);
	check_eq(objects_add(OBJECT_SRQ, &srq, &b), 0);
	check_eq(objects_add(OBJECT_WQ, &wq, &c), 0);
	check(a && b && c); /* 0 names nothing */
	check(objects_get(a, &kind) == &qp && kind == OBJECT_QP);
	check(objects_get(b, &kind) == &srq && kind == OBJECT_SRQ);
	check(objects_get(c, &kind) == &wq && kind == OBJECT_WQ);
	objects_del(b);
	check(!objects_get(b, &kind));
	check(objects_get(a, &kind) == &qp);
	objects_del(a);
	objects_del(c);
}

TEST(numbers_that_name_nothing_find_nothing)
{
	static const uint32_t none[] = { 0, 4095, 0x800000, 0xffffff, 0x1000000, UINT32_MAX };
	enum object_kind kind;

	for (unsigned int i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		check(!objects_get(none[i], &kind));
}

/* A CQE that is polled late meets no new object. */
TEST(an_index_is_not_handed_out_again_soon)
{
	uint32_t first, next;
	int obj;

	check_eq(objects_add(OBJECT_QP, &obj, &first), 0);
	objects_del(first);
	for (int i = 0; i < MANY; i++) {
		check_eq(objects_add(OBJECT_QP, &obj, &next), 0);
		check_ne(next, first);
		objects_del(next);
	}
}

TEST(many_objects_keep_their_indices)
{
	static uint32_t uidx[MANY];
	static char obj[MANY];
	enum object_kind kind;

	for (int i = 0; i < MANY; i++)
		check_eq(objects_add(OBJECT_QP, &obj[i], &uidx[i]), 0);
	for (int i = 0; i < MANY; i += 2)
		objects_del(uidx[i]);
	for (int i = 0; i < MANY; i++) {
		check(uidx[i] < 1 << 24);
		check(objects_get(uidx[i], &kind) == (i & 1 ? &obj[i] : NULL));
	}
	for (int i = 1; i < MANY; i += 2)
		objects_del(uidx[i]);
}

RUN_TESTS(unit_test(an_index_names_its_object_and_kind),
	  unit_test(numbers_that_name_nothing_find_nothing),
	  unit_test(an_index_is_not_handed_out_again_soon),
	  unit_test(many_objects_keep_their_indices))
