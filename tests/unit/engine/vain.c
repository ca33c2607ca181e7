// SPDX-License-Identifier: MIT
/* When a thread that polls in vain gives its core away, and when it sleeps. */
#include "engine/idle/vain.h"
#include "test.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

struct thread {
	struct vain v;
	uint64_t now;
	uint64_t alone, others; /* ns that a yield takes */
	bool crowded; /* others want the core */
	bool restless; /* it may not rest */
	unsigned int yields, rests;
};

/* One empty poll, which takes @ns, and what follows from it. */
static enum vain_step poll_once(struct thread *t, struct vain_threads *all, uint64_t ns)
{
	enum vain_step step = VAIN_POLL;

	t->now += ns;
	if (vain_looks(&t->v))
		step = vain_next(&t->v, all, !t->restless, t->now);
	if (step == VAIN_YIELD) {
		uint64_t before = t->now;

		t->now += t->crowded ? t->others : t->alone;
		vain_yielded(&t->v, before, t->now);
		t->yields++;
	} else if (step == VAIN_REST) {
		t->now += t->restless ? t->others : vain_rest(&t->v);
		t->rests++;
	}
	return step;
}

/* ns until the thread yields or rests, each poll taking @ns; at most 10000 polls. */
static uint64_t until_step(struct thread *t, struct vain_threads *all, uint64_t ns)
{
	for (unsigned int n = 1; n < 10000; n++)
		if (poll_once(t, all, ns) != VAIN_POLL)
			return n * ns;
	return 10000 * ns;
}

static struct thread thread(void)
{
	return (struct thread){ .now = 77 * MS, .alone = 500, .others = 3 * MS };
}

TEST(time_counts_and_not_polls)
{
	struct vain_threads all = { 0 };
	struct thread t = thread();
	uint64_t took;

	took = until_step(&t, &all, 20);
	check(took >= VAIN_NS && took < 2 * VAIN_NS);
	took = until_step(&t, &all, 1500); /* a system call each */
	check(took >= VAIN_NS && took < 2 * VAIN_NS);
}

TEST(a_thread_that_finds_something_begins_anew)
{
	struct vain_threads all = { 0 };
	struct thread t = thread();

	for (unsigned int n = 0; n < 10000; n++) {
		check_eq(poll_once(&t, &all, 1 * US), VAIN_POLL);
		if (n % 40 == 39)
			vain_found(&t.v);
	}
}

TEST(alone_on_a_core_it_never_rests)
{
	struct vain_threads all = { 0 };
	struct thread t = thread();

	while (t.now < 10 * S)
		poll_once(&t, &all, 1 * US);
	check_eq(t.rests, 0);
	check(t.yields > 100000);
}

TEST(in_a_crowd_it_rests_and_hardly_spins)
{
	struct vain_threads all = { 0 };
	struct thread t = thread();
	uint64_t polls = 0;

	t.crowded = true;
	for (; t.now < 10 * S; polls++)
		poll_once(&t, &all, 1 * US);
	check(t.rests > 1000);
	check(t.yields < 25); /* each costs a whole slice */
	check(polls * US < 10 * S / 100);
}

/* It does not give its core away before an answer can come whose sender runs. */
TEST(in_a_crowd_it_waits_for_an_answer_if_it_may_not_rest)
{
	struct vain_threads all = { 0 };
	struct thread t = thread();
	uint64_t took;

	t.crowded = t.restless = true;
	until_step(&t, &all, 20);
	check_eq(t.yields, 1);
	took = until_step(&t, &all, 20);
	check_eq(t.rests, 1);
	check(took >= VAIN_NS_CROWDED && took < VAIN_NS_CROWDED + 40 * VAIN_LOOKS);
	for (unsigned int n = 0; n < 300; n++) {
		vain_found(&t.v);
		for (unsigned int polls = 0; polls < VAIN_NS_CROWDED / 20; polls++)
			check_eq(poll_once(&t, &all, 20), VAIN_POLL);
	}
	check(t.now < t.v.crowd_end);
}

/* What comes within a rest ends it: then the row begins anew, and the next rest is short again. */
TEST(rests_are_longer_while_nothing_comes)
{
	struct vain v = { 0 };

	check_eq(vain_rest(&v), VAIN_REST_FIRST);
	for (unsigned int n = 0; n < 20; n++)
		check(vain_rest(&v) <= VAIN_REST_MOST);
	check_eq(vain_rest(&v), VAIN_REST_MOST);
	vain_found(&v);
	check_eq(vain_rest(&v), VAIN_REST_FIRST);
}

TEST(a_crowd_that_has_gone_is_noticed)
{
	struct vain_threads all = { 0 };
	struct thread t = thread();
	uint64_t gone;

	t.crowded = true;
	while (t.now < 10 * S)
		poll_once(&t, &all, 1 * US);
	t.crowded = false;
	for (gone = t.now; t.now < gone + 2 * VAIN_CROWD_MOST;)
		poll_once(&t, &all, 1 * US);
	t.rests = 0;
	for (gone = t.now; t.now < gone + 1 * S;)
		poll_once(&t, &all, 1 * US);
	check_eq(t.rests, 0);
}

/* One thread that needs the core for a moment is no crowd for long. */
TEST(a_guest_is_soon_forgotten)
{
	struct vain_threads all = { 0 };
	struct thread t = thread();
	uint64_t left;

	t.crowded = true;
	while (!t.yields)
		poll_once(&t, &all, 1 * US);
	t.crowded = false;
	for (left = t.now; t.now < left + VAIN_CROWD_TIMES * t.others + VAIN_REST_MOST + 1 * MS;)
		poll_once(&t, &all, 1 * US);
	t.rests = 0;
	for (left = t.now; t.now < left + 1 * S;)
		poll_once(&t, &all, 1 * US);
	check_eq(t.rests, 0);
}

TEST(of_several_threads_none_yields_until_one_is_alone)
{
	struct vain_threads all = { 0 };
	struct vain v[2] = { 0 };
	struct thread t = thread();
	uint64_t now = 77000 * US;

	check(until_step(&t, &all, 20) < 2 * VAIN_NS); /* alone as yet */
	now = t.now;
	for (unsigned int n = 0; n < 10000; n++) {
		struct vain *its = &v[n / 1000 % 2 ? 0 : 1]; /* which has the core, for a ms */

		now += 1 * US;
		check(!vain_looks(its) || vain_next(its, &all, true, now) == VAIN_POLL);
	}
	t.now = now + VAIN_APART;
	until_step(&t, &all, 20);
	t.now += VAIN_APART;
	check(until_step(&t, &all, 20) < 2 * VAIN_NS);
}

/* The engine thread leaves such a program the time that its turn takes. */
TEST(of_a_crowd_the_engine_is_told)
{
	struct vain_threads all = { 0 };
	struct vain v = { 0 };

	check_eq(vain_turn(&all, 77 * MS), 0);
	vain_yielded(&v, 77 * MS, 77 * MS + 500); /* nobody wants the core */
	vain_tell(&all, &v, 500);
	check_eq(vain_turn(&all, 77 * MS + 500), 0);
	vain_yielded(&v, 80 * MS, 83 * MS);
	vain_tell(&all, &v, 3 * MS);
	check_eq(vain_turn(&all, 83 * MS), 500); /* it may have been chance */
	vain_yielded(&v, 90 * MS, 94 * MS);
	vain_tell(&all, &v, 4 * MS);
	check_eq(vain_turn(&all, 94 * MS), 3 * MS);
	check_eq(vain_turn(&all, v.crowd_end - 1), 3 * MS);
	check_eq(vain_turn(&all, v.crowd_end), 0);
}

/* It needs the engine to take what comes while it sleeps. */
TEST(a_program_that_waits_for_events_is_not_left_alone)
{
	struct vain_threads all = { 0 };
	struct vain v = { 0 };

	for (uint64_t at = 70 * MS; at < 80 * MS; at += 5 * MS) {
		vain_yielded(&v, at, at + 3 * MS);
		vain_tell(&all, &v, 3 * MS);
	}
	check_eq(vain_turn(&all, 78 * MS), 3 * MS);
	check(vain_armed(&all));
	check_eq(vain_turn(&all, 78 * MS), 0);
	check(!vain_armed(&all));
	vain_yielded(&v, 80 * MS, 83 * MS);
	vain_tell(&all, &v, 3 * MS); /* it has armed a CQ since the last yield */
	check_eq(vain_turn(&all, 83 * MS), 0);
	vain_yielded(&v, 90 * MS, 93 * MS);
	vain_tell(&all, &v, 3 * MS);
	check_eq(vain_turn(&all, 93 * MS), 3 * MS);
}

RUN_TESTS(unit_test(time_counts_and_not_polls),
	  unit_test(a_thread_that_finds_something_begins_anew),
	  unit_test(alone_on_a_core_it_never_rests),
	  unit_test(in_a_crowd_it_rests_and_hardly_spins),
	  unit_test(in_a_crowd_it_waits_for_an_answer_if_it_may_not_rest),
	  unit_test(rests_are_longer_while_nothing_comes),
	  unit_test(a_crowd_that_has_gone_is_noticed), unit_test(a_guest_is_soon_forgotten),
	  unit_test(of_several_threads_none_yields_until_one_is_alone),
	  unit_test(of_a_crowd_the_engine_is_told),
	  unit_test(a_program_that_waits_for_events_is_not_left_alone))
