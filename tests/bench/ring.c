// SPDX-License-Identifier: MIT
/* Two processes, one core each, a ring each way: the time of an 8-byte message one way, and how
 * many 64-byte messages a second pass. */
#include <sched.h>
#include <unistd.h>
#include "../links/station.h"
#include "util/clock.h"

enum { ROUNDS = 200000, STREAM = 4000000, RUNS = 5 };

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static struct seg message(uint32_t from, uint32_t to, const struct piece *p)
{
	return (struct seg){ .op = 4,
			     .flags = SEG_SQPN,
			     .pkey = 0xffff,
			     .dqpn = to,
			     .sqpn = from,
			     .npsn = 1,
			     .len = p->len,
			     .npieces = 1,
			     .pieces = p };
}

static void meet(struct station *st, int talk, uint32_t *peer)
{
	station_open(st);
	child_tell(talk, station_number(st));
	*peer = (uint32_t)child_hear(talk);
}

static void spin_until(struct station *st, uint64_t n)
{
	for (uint64_t empty = 0; st->count < n;)
		if (!host_drain(st->h, 64) && ++empty % 4096 == 0)
			host_control(st->h, clock_now());
}

static int echo(int talk, void *arg)
{
	char buf[8] = { 0 };
	struct piece p = { (uintptr_t)buf, sizeof(buf), 0 };
	struct station st = { 0 };
	struct dest *d;
	struct seg s;
	uint32_t peer;

	(void)arg;
	pin(1);
	meet(&st, talk, &peer);
	d = station_dest(&st, peer);
	s = message(station_number(&st), peer, &p);
	for (uint64_t n = 1; n <= (uint64_t)ROUNDS * RUNS; n++) {
		spin_until(&st, n);
		station_send(&st, d, &s);
	}
	for (uint64_t run = 1; run <= RUNS; run++) {
		spin_until(&st, (uint64_t)ROUNDS * RUNS + run * STREAM);
		station_send(&st, d, &s);
	}
	child_hear(talk);
	return 0;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, RUNS, sizeof(*v), by_size);
	return v[RUNS / 2];
}

static double latency(struct station *st, struct dest *d, const struct seg *s)
{
	uint64_t start = clock_now(), first = st->count;

	for (uint64_t n = 1; n <= ROUNDS; n++) {
		station_send(st, d, s);
		spin_until(st, first + n);
	}
	return (double)(clock_now() - start) / ROUNDS / 2;
}

static double rate(struct station *st, struct dest *d, const struct seg *s)
{
	uint64_t start = clock_now(), first = st->count;

	for (int n = 0; n < STREAM; n++)
		station_send(st, d, s);
	spin_until(st, first + 1);
	return (double)STREAM * 1e3 / (double)(clock_now() - start);
}

int main(void)
{
	char buf[64] = { 0 };
	struct piece small = { (uintptr_t)buf, 8, 0 }, large = { (uintptr_t)buf, 64, 0 };
	struct child c = child_start(echo, NULL);
	double ns[RUNS], millions[RUNS];
	struct station st = { 0 };
	struct dest *d;
	struct seg s;
	uint32_t peer;

	pin(0);
	meet(&st, c.talk, &peer);
	d = station_dest(&st, peer);
	s = message(station_number(&st), peer, &small);
	for (int i = 0; i < RUNS; i++)
		ns[i] = latency(&st, d, &s);
	s = message(station_number(&st), peer, &large);
	for (int i = 0; i < RUNS; i++)
		millions[i] = rate(&st, d, &s);
	printf("8-byte message one way: %.0f ns\n", median(ns));
	printf("64-byte messages: %.1f million a second\n", median(millions));
	d->ops->put(d);
	close(c.talk);
	station_close(&st);
	return 0;
}
