// SPDX-License-Identifier: MIT
/* Direct access looks twice: a key or a QP that goes between its first look and its hazards is not
 * used. Both ends live in one process. */
#include <errno.h>
#include "peers/host_state.h"
#include "station.h"

enum { KEY_INDEX = 2 };

struct access {
	struct station a, b;
	struct dest *d;
	struct direct_ask ask;
	uint32_t qpn;
	uint64_t word, mine; /* the target, and what is written there */
	struct piece piece;
	void (*gone)(struct access *x);
};

static void publish_qp(struct access *x)
{
	const struct host_qp qp = { .state = IBV_QPS_RTS,
				    .access = IBV_ACCESS_REMOTE_WRITE,
				    .pdn = 7,
				    .peer_qpn = station_number(&x->a),
				    .flags = HOST_QP_DIRECT };

	host_publish_qp(x->b.h, x->qpn, &qp);
}

static void open_access(struct access *x)
{
	struct seg hello = { .op = 4, .flags = SEG_SQPN, .pkey = 0xffff, .npsn = 1 };

	memset(x, 0, sizeof(*x));
	station_open(&x->a);
	station_open(&x->b);
	station_thread(&x->b);
	x->qpn = station_number(&x->b);
	x->d = station_dest(&x->a, x->qpn);
	hello.dqpn = x->qpn;
	hello.sqpn = station_number(&x->a);
	check_eq(station_send(&x->a, x->d, &hello), 0);
	while (!load_acquire(&x->b.count))
		station_turn(&x->a);
	station_mutual(&x->a, x->d);
	x->mine = 0x1122334455667788;
	x->piece = (struct piece){ (uintptr_t)&x->mine, 8, 0 };
	x->ask = (struct direct_ask){ .write = true,
				      .sqpn = station_number(&x->a),
				      .dqpn = x->qpn,
				      .rkey = station_key(&x->b, KEY_INDEX, &x->word, 8),
				      .va = (uintptr_t)&x->word,
				      .len = 8,
				      .pieces = &x->piece,
				      .npieces = 1 };
	publish_qp(x);
}

static void close_access(struct access *x)
{
	x->d->ops->put(x->d);
	station_close(&x->a);
	station_close(&x->b);
}

static int go(struct access *x)
{
	x->word = 0;
	x->ask.done = 0;
	return x->d->ops->direct(x->d, &x->ask);
}

static void go_undisturbed(struct access *x)
{
	check_eq(go(x), 0);
	check_eq(x->word, x->mine);
}

/* The access has looked once; it has set no hazard yet. */
static void between(void *arg)
{
	struct access *x = arg;

	for (unsigned int i = 0; i < HAZARDS; i++)
		check(!x->a.h->page->hazard[i]);
	x->gone(x);
	x->gone = NULL;
}

static void interrupt(struct access *x, void (*gone)(struct access *x))
{
	go_undisturbed(x);
	x->gone = gone;
	station_behind_look(between, x);
	check_eq(go(x), EAGAIN);
	check(!x->gone);
	check_eq(x->word, 0);
}

static void unkey(struct access *x)
{
	station_unkey(&x->b, KEY_INDEX);
}

static void other_key(struct access *x)
{
	station_unkey(&x->b, KEY_INDEX);
	station_key(&x->b, KEY_INDEX, &x->mine, 8); /* another place under the same number */
}

static void no_qp(struct access *x)
{
	host_publish_qp(x->b.h, x->qpn, NULL);
}

static void other_qp(struct access *x)
{
	no_qp(x);
	publish_qp(x); /* the same again, but not the one that was looked at */
}

static void check_gone(void (*gone)(struct access *x))
{
	struct access x;

	open_access(&x);
	interrupt(&x, gone);
	close_access(&x);
}

TEST(a_key_that_goes_in_between_is_not_used)
{
	check_gone(unkey);
	check_gone(other_key);
}

TEST(a_queue_pair_that_goes_in_between_is_not_used)
{
	check_gone(no_qp);
	check_gone(other_qp);
}

/* Threads that wait for a second place while they hold the first would wait for each other. */
TEST(an_access_that_finds_one_place_for_its_two_hazards_waits_for_no_other)
{
	uint64_t *page, *taken[HAZARDS - 1];
	struct access x;

	open_access(&x);
	go_undisturbed(&x);
	page = x.a.h->page->hazard;
	for (unsigned int i = 0; i < HAZARDS - 1; i++)
		taken[i] = hazard_set(page, i + 1);
	check_eq(go(&x), EAGAIN);
	check_eq(x.word, 0);
	check(hazard_is_set(page, 0)); /* the place that was free is so again */
	for (unsigned int i = 0; i < HAZARDS - 1; i++)
		hazard_clear(taken[i]);
	go_undisturbed(&x);
	close_access(&x);
}

RUN_TESTS(unit_test(a_key_that_goes_in_between_is_not_used),
	  unit_test(a_queue_pair_that_goes_in_between_is_not_used),
	  unit_test(an_access_that_finds_one_place_for_its_two_hazards_waits_for_no_other))
