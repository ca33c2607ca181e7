// SPDX-License-Identifier: MIT
/* Both ends in one process, several threads each, so that a race detector sees all of it: sends,
 * drains, revocations, publications, contacts that end. */
#include <errno.h>
#include <sched.h>
#include "station.h"
#include "util/barrier.h"

enum { SENDERS = 3, EACH = 5000, ROUNDS = 5 };

struct sender {
	struct station *st;
	uint32_t to, id;
	pthread_t thread;
};

/* psn counts in each sender's sequence; sqpn's index is the sender. */
struct order {
	uint32_t next[SENDERS];
	uint64_t bad;
};

static void check_order(struct station *st, const struct seg *s)
{
	struct order *o = st->arg;
	uint32_t id = s->sqpn & 0x3fff;

	if (id >= SENDERS || s->psn != o->next[id]++)
		o->bad++;
}

static void *send_all(void *arg)
{
	struct sender *me = arg;
	struct dest *d = station_dest(me->st, me->to);
	char buf[100] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };

	for (uint32_t n = 0; n < EACH; n++) {
		struct seg s = { .op = 4,
				 .pkey = 0xffff,
				 .dqpn = me->to,
				 .sqpn = (me->st->slot << 14) | me->id,
				 .psn = n,
				 .npsn = 1,
				 .len = p.len,
				 .npieces = 1,
				 .pieces = &p };

		while (dest_send(d, &s, NULL) == EAGAIN)
			sched_yield();
		if (n % 100 == 0)
			host_revoke(me->st->h, 0x15a);
	}
	d->ops->put(d);
	return NULL;
}

static void start(struct sender *s, struct station *from, const struct station *to)
{
	for (uint32_t i = 0; i < SENDERS; i++) {
		s[i] = (struct sender){ .st = from, .to = station_number(to), .id = i };
		check_eq(pthread_create(&s[i].thread, NULL, send_all, &s[i]), 0);
	}
}

static void join(struct sender *s)
{
	for (int i = 0; i < SENDERS; i++)
		pthread_join(s[i].thread, NULL);
}

TEST(threads_of_two_hosts_in_one_process_exchange_in_order)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct order oa = { 0 }, ob = { 0 };
		struct station a = { .got = check_order, .arg = &oa },
			       b = { .got = check_order, .arg = &ob };
		struct sender sa[SENDERS], sb[SENDERS];

		station_open(&a);
		station_open(&b);
		station_thread(&a);
		station_thread(&b);
		start(sa, &a, &b);
		start(sb, &b, &a);
		join(sa);
		join(sb);
		while (load_acquire(&a.count) < SENDERS * EACH ||
		       load_acquire(&b.count) < SENDERS * EACH)
			sched_yield();
		check_eq(oa.bad, 0);
		check_eq(ob.bad, 0);
		station_close(&a);
		station_close(&b);
	}
}

TEST(threads_of_one_host_talk_to_themselves_in_order)
{
	struct order o = { 0 };
	struct station a = { .got = check_order, .arg = &o };
	struct sender s[SENDERS];

	station_open(&a);
	station_thread(&a);
	start(s, &a, &a);
	join(s);
	while (load_acquire(&a.count) < SENDERS * EACH)
		sched_yield();
	check_eq(o.bad, 0);
	station_close(&a);
}

RUN_TESTS(unit_test(threads_of_two_hosts_in_one_process_exchange_in_order),
	  unit_test(threads_of_one_host_talk_to_themselves_in_order))
