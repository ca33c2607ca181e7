// SPDX-License-Identifier: MIT
/* Direct access looks twice: a key or a QP that goes between its first look and its hazards is not
 * used, nor is one that has gone since the QP's last access, whose first look counts. Both ends
 * live in one process. */
#include <errno.h>
#include "peers/host_state.h"
#include "station.h"

enum { KEY_INDEX = 2 };

struct access {
	struct station a, b;
	struct dest *d;
	struct direct_ask ask;
	struct link_grant grant;
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
				      .grant = &x->grant,
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
	x->grant = (struct link_grant){ 0 };
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
	station_key(&x->b, KEY_INDEX, &x->mine,
		    8); /* another place under the same number and address */
	((struct station_key *)host_key_memory(x->b.h))[KEY_INDEX].iova = (uintptr_t)&x->word;
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

TEST(what_was_granted_and_has_gone_is_not_used)
{
	static void (*const gone[])(struct access *) = { unkey, other_key, no_qp, other_qp };
	struct access x;

	for (unsigned int i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
		open_access(&x);
		go_undisturbed(&x);
		gone[i](&x);
		check_eq(go(&x), EAGAIN);
		check_eq(x.word, 0);
		if (gone[i] == other_qp)
			go_undisturbed(&x); /* it has looked again */
		close_access(&x);
	}
}

/* Each access under the grant of another one is looked at by itself. */
TEST(a_grant_is_for_what_was_asked)
{
	struct access x;
	struct link_grant g;

	open_access(&x);
	go_undisturbed(&x);
	g = x.grant;
	x.ask.write = false; /* the QP allows to write */
	check_eq(go(&x), EAGAIN);
	check_eq(x.mine, 0x1122334455667788);
	x.ask.write = true;
	x.grant = g;
	x.ask.sqpn++;
	check_eq(go(&x), EAGAIN);
	x.ask.sqpn--;
	x.grant = g;
	x.ask.rkey = station_key(&x.b, KEY_INDEX + 1, &x.word, 8);
	((struct station_key *)host_key_memory(x.b.h))[KEY_INDEX + 1].pdn = 8;
	check_eq(go(&x), EAGAIN);
	x.ask.rkey = g.rkey;
	x.ask.write = false;
	g.access |= IBV_ACCESS_REMOTE_READ;
	g.process++; /* that of another process */
	x.grant = g;
	check_eq(go(&x), EAGAIN);
	x.ask.write = true;
	go_undisturbed(&x);
	x.ask.va += 4;
	check_eq(go(&x), EAGAIN); /* beyond the key */
	x.ask.va -= 4;
	go_undisturbed(&x);
	close_access(&x);
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
	  unit_test(what_was_granted_and_has_gone_is_not_used),
	  unit_test(a_grant_is_for_what_was_asked),
	  unit_test(an_access_that_finds_one_place_for_its_two_hazards_waits_for_no_other))
