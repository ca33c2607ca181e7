// SPDX-License-Identifier: MIT
#include "hca/alive.h"
#include <errno.h>
#include <infiniband/verbs.h>
#include "test.h"

/* It has no context and no device: the table reads its members, and nothing else. */
static struct ibv_cq cq;

TEST(of_two_that_end_an_object_one_does)
{
	struct alive_end first, second;

	alive_made(ALIVE_CQ, &cq);
	check_eq(alive_take(ALIVE_CQ, &cq, "first", &first), 0);
	check_eq(alive_take(ALIVE_CQ, &cq, "second", &second), EBUSY);
	check_eq(alive_left(&first, 0), 0);
	check_eq(alive_take(ALIVE_CQ, &cq, "late", &second), ENOENT);
}

TEST(an_end_that_is_refused_leaves_the_object_to_the_next)
{
	struct alive_end first, second;

	alive_made(ALIVE_CQ, &cq);
	check_eq(alive_take(ALIVE_CQ, &cq, "first", &first), 0);
	check_eq(alive_check(ALIVE_CQ, &cq, "a user"), 0);
	check_eq(alive_left(&first, EBUSY), EBUSY);
	check_eq(alive_take(ALIVE_CQ, &cq, "second", &second), 0);
	check_eq(alive_left(&second, 0), 0);
}

/* The memory may belong to a new object before the end of the old one has been noted. */
TEST(the_end_of_an_object_is_not_its_successors)
{
	struct alive_end old, new;

	alive_made(ALIVE_CQ, &cq);
	check_eq(alive_take(ALIVE_CQ, &cq, "old", &old), 0);
	alive_made(ALIVE_CQ, &cq);
	check_eq(alive_left(&old, 0), 0);
	check_eq(alive_check(ALIVE_CQ, &cq, "a user"), 0);
	check_eq(alive_take(ALIVE_CQ, &cq, "new", &new), 0);
	check_eq(alive_left(&new, 0), 0);
}

RUN_TESTS(unit_test(of_two_that_end_an_object_one_does),
	  unit_test(an_end_that_is_refused_leaves_the_object_to_the_next),
	  unit_test(the_end_of_an_object_is_not_its_successors))
