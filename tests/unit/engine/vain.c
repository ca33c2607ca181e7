// SPDX-License-Identifier: MIT
/* When a thread that polls in vain gives its core away. */
#include "engine/vain.h"
#include "test.h"

#define US 1000ULL

/* Polls until the thread yields, each poll taking @ns. Returns the polls, at most 10000. */
static unsigned int polls(struct vain *v, struct vain_threads *t, uint64_t *now, uint64_t ns)
{
	for (unsigned int n = 1; n < 10000; n++) {
		*now += ns;
		if (vain_looks(v) && vain_yields(v, t, *now))
			return n;
	}
	return 10000;
}

TEST(time_counts_and_not_polls)
{
	struct vain v = { 0 };
	struct vain_threads t = { 0 };
	uint64_t now = 77000 * US, cheap, dear;

	cheap = polls(&v, &t, &now, 20) * 20ULL;
	check(cheap >= VAIN_NS && cheap < 2 * VAIN_NS);
	dear = polls(&v, &t, &now, 1500) * 1500ULL; /* a system call each */
	check(dear >= VAIN_NS && dear < 2 * VAIN_NS);
}

TEST(who_finds_something_begins_anew)
{
	struct vain v = { 0 };
	struct vain_threads t = { 0 };
	uint64_t now = 77000 * US;

	for (unsigned int n = 0; n < 10000; n++) {
		now += 1 * US;
		check(!(vain_looks(&v) && vain_yields(&v, &t, now)));
		if (n % 40 == 39)
			vain_found(&v);
	}
}

TEST(of_several_threads_none_yields_until_one_is_alone)
{
	struct vain v[2] = { 0 };
	struct vain_threads t = { 0 };
	uint64_t now = 77000 * US;

	check(polls(&v[0], &t, &now, 20) < 10000); /* alone as yet */
	for (unsigned int n = 0; n < 10000; n++) {
		struct vain *its = &v[n / 1000 % 2 ? 0 : 1]; /* who has the core, for a ms */

		now += 1 * US;
		check(!(vain_looks(its) && vain_yields(its, &t, now)));
	}
	now += VAIN_APART;
	check(polls(&v[0], &t, &now, 20) * 20ULL < 2 * VAIN_NS);
}

RUN_TESTS(unit_test(time_counts_and_not_polls), unit_test(who_finds_something_begins_anew),
	  unit_test(of_several_threads_none_yields_until_one_is_alone))
