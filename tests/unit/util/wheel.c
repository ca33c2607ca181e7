// SPDX-License-Identifier: MIT
#include "test.h"
#include "util/rand.h"
#include "util/wheel.h"

enum { N = 300 };

struct probe {
	struct timer timer;
	uint64_t fired_at;
	int fired;
	int adds; /* how often fire() adds it again */
	uint64_t step;
	struct wheel *wheel;
	struct timer *victim; /* what fire() deletes */
};

static void on_fire(struct timer *t, uint64_t now)
{
	struct probe *p = container_of(t, struct probe, timer);

	check(now >= t->at);
	check(!timer_running(t));
	p->fired++;
	p->fired_at = now;
	if (p->victim)
		wheel_del(p->wheel, p->victim);
	if (p->adds-- > 0)
		wheel_add(p->wheel, t, t->at + p->step);
}

static void probe_init(struct probe *p, struct wheel *w)
{
	*p = (struct probe){ .wheel = w };
	timer_init(&p->timer, on_fire);
}

static void setup(struct wheel *w, struct probe *p, int n, uint64_t now)
{
	wheel_init(w, now);
	for (int i = 0; i < n; i++)
		probe_init(&p[i], w);
}

TEST(fires_at_its_nanosecond_and_not_before)
{
	static const uint64_t ahead[] = { 1,
					  16383,
					  16384,
					  16385,
					  1 << 20,
					  1000000,
					  67108864,
					  67108865,
					  UINT64_C(1) << 40,
					  UINT64_C(8796093022208) };

	for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
		uint64_t start = UINT64_C(1234567890123), at = start + ahead[i];
		struct wheel w;
		struct probe p;

		setup(&w, &p, 1, start);
		wheel_add(&w, &p.timer, at);
		check_eq(wheel_run(&w, at - 1), 0);
		check_eq(wheel_next(&w), at);
		check_eq(wheel_run(&w, at), 1);
		check_eq(p.fired_at, at);
		check_eq(wheel_next(&w), UINT64_MAX);
	}
}

TEST(the_past_fires_in_the_next_run)
{
	struct wheel w;
	struct probe p;

	setup(&w, &p, 1, 5000000);
	wheel_add(&w, &p.timer, 3);
	check(wheel_next(&w) <= 5000000);
	check_eq(wheel_run(&w, 5000000), 1);
}

TEST(the_last_moment_of_time_can_be_a_deadline)
{
	struct wheel w;
	struct probe p;

	setup(&w, &p, 1, 0);
	wheel_add(&w, &p.timer, UINT64_MAX);
	check_eq(wheel_run(&w, UINT64_MAX - 1), 0);
	check_eq(wheel_run(&w, UINT64_MAX), 1);
}

TEST(adding_again_moves_and_deleting_stops)
{
	struct wheel w;
	struct probe p;

	setup(&w, &p, 1, 0);
	wheel_add(&w, &p.timer, 1000000);
	wheel_add(&w, &p.timer, 9000000);
	check_eq(wheel_run(&w, 8999999), 0);
	wheel_del(&w, &p.timer);
	wheel_del(&w, &p.timer);
	check_eq(wheel_next(&w), UINT64_MAX);
	check_eq(wheel_run(&w, 10000000), 0);
	check_eq(p.fired, 0);
}

TEST(fire_may_add_itself_and_fires_once_a_run)
{
	struct wheel w;
	struct probe p;

	setup(&w, &p, 1, 0);
	p.adds = 100;
	p.step = 1;
	wheel_add(&w, &p.timer, 10);
	for (int i = 1; i <= 101; i++) {
		check_eq(wheel_run(&w, 1000000), 1);
		check_eq(p.fired, i);
	}
	check_eq(wheel_run(&w, 2000000), 0);
}

TEST(fire_may_delete_one_that_is_due_too)
{
	struct wheel w;
	struct probe p[2];

	setup(&w, p, 2, 0);
	p[0].victim = &p[1].timer;
	wheel_add(&w, &p[0].timer, 10);
	wheel_add(&w, &p[1].timer, 10);
	check_eq(wheel_run(&w, 20), 1);
	check_eq(p[1].fired, 0);
	check(!timer_running(&p[1].timer));
}

/* A deadline of any magnitude, up to days. */
static uint64_t some_delay(struct rand *r)
{
	return rand_u64(r) >> (16 + rand_below(r, 48));
}

static uint64_t true_next(const struct probe *p)
{
	uint64_t next = UINT64_MAX;

	for (int i = 0; i < N; i++)
		if (timer_running(&p[i].timer) && p[i].timer.at < next)
			next = p[i].timer.at;
	return next;
}

/* After a run at @now exactly those are gone whose time has come. */
static void check_exact(const struct probe *p, uint64_t now)
{
	for (int i = 0; i < N; i++)
		check(!timer_running(&p[i].timer) || p[i].timer.at > now);
}

TEST(seeded_walk_is_exact_and_next_is_never_late)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		static struct probe p[N];
		struct wheel w;
		struct rand r;
		uint64_t now;

		rand_init(&r, seed);
		now = some_delay(&r);
		setup(&w, p, N, now);
		for (int step = 0; step < 400; step++) {
			struct probe *x = &p[rand_below(&r, N)];

			if (rand_chance(&r, 0.8))
				wheel_add(&w, &x->timer, now + some_delay(&r));
			else
				wheel_del(&w, &x->timer);
			check(wheel_next(&w) <= true_next(p));
			if (rand_chance(&r, 0.3)) {
				now += some_delay(&r) >> 8;
				wheel_run(&w, now);
				check_exact(p, now);
			}
		}
	}
}

TEST(following_next_reaches_every_deadline_in_few_runs)
{
	static struct probe p[N];
	struct wheel w;
	struct rand r;
	int runs = 0;

	rand_init(&r, 3);
	setup(&w, p, N, 77);
	for (int i = 0; i < N; i++)
		wheel_add(&w, &p[i].timer, 77 + some_delay(&r));
	for (uint64_t now; (now = wheel_next(&w)) != UINT64_MAX; runs++)
		wheel_run(&w, now);
	for (int i = 0; i < N; i++) {
		check_eq(p[i].fired, 1);
		check_eq(p[i].fired_at, p[i].timer.at);
	}
	check(runs <= N * WHEEL_LEVELS);
}

RUN_TESTS(unit_test(fires_at_its_nanosecond_and_not_before),
	  unit_test(the_past_fires_in_the_next_run),
	  unit_test(the_last_moment_of_time_can_be_a_deadline),
	  unit_test(adding_again_moves_and_deleting_stops),
	  unit_test(fire_may_add_itself_and_fires_once_a_run),
	  unit_test(fire_may_delete_one_that_is_due_too),
	  unit_test(seeded_walk_is_exact_and_next_is_never_late),
	  unit_test(following_next_reaches_every_deadline_in_few_runs))
