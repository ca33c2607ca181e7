// SPDX-License-Identifier: MIT
/* Which process a segment comes from: the number that its sender's destination carries, the same
 * for all slots of a process, whatever the segment says. */
#include <errno.h>
#include <sched.h>
#include "station.h"
#include "util/barrier.h"

static uint64_t from; /* the process behind the last segment */

static void note(struct station *st, const struct seg *s)
{
	(void)st;
	from = dest_process(s->from);
}

static struct seg message(const struct station *st)
{
	return (struct seg){ .op = 4, .pkey = 0xffff, .sqpn = station_number(st), .npsn = 1 };
}

/* A destination that leads somewhere: a segment has gone there. */
static struct dest *way(struct station *st, uint32_t number)
{
	struct dest *d = station_dest(st, number);
	struct seg s = message(st);
	int err;

	while ((err = dest_send(d, &s, NULL)) == EAGAIN)
		if (st->threaded)
			sched_yield();
		else
			station_turn(st);
	check_eq(err, 0);
	return d;
}

static void send_to(struct station *st, const struct station *to)
{
	struct dest *d = way(st, station_number(to));

	d->ops->put(d);
}

TEST(all_slots_of_a_process_lead_to_the_same_one)
{
	struct station a = { .got = note }, b = { 0 }, c = { 0 };
	struct dest *first, *second, *other, *own;
	unsigned int slot;

	station_open(&a);
	station_open(&b);
	station_open(&c);
	check_eq(host_take_slot(b.h, &slot), 0);
	station_thread(&b);
	station_thread(&c);
	first = way(&a, station_number(&b));
	second = way(&a, slot << 14 | 2);
	other = way(&a, station_number(&c));
	own = station_dest(&a, station_number(&a));
	check_ne(dest_process(first), 0);
	check_eq(dest_process(first), dest_process(second));
	check_ne(dest_process(first), dest_process(other));
	check_ne(dest_process(own), 0);
	check_ne(dest_process(own), dest_process(first));
	check_ne(dest_process(own), dest_process(other));
	a.count = 0;
	send_to(&b, &a);
	station_until(&a, &a.count, 1);
	check_eq(from, dest_process(second));
	send_to(&c, &a);
	station_until(&a, &a.count, 2);
	check_eq(from, dest_process(other));
	send_to(&a, &a);
	station_until(&a, &a.count, 3);
	check_eq(from, dest_process(own));
	station_close(&b);
	while (dest_process(first) || dest_process(second))
		station_turn(&a); /* it has ended: it is nobody */
	first->ops->put(first);
	second->ops->put(second);
	other->ops->put(other);
	own->ops->put(own);
	station_close(&c);
	station_close(&a);
}

RUN_TESTS(unit_test(all_slots_of_a_process_lead_to_the_same_one))
