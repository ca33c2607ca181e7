// SPDX-License-Identifier: MIT
#include <errno.h>
#include <sys/resource.h>
#include "peers/host.h"
#include "peers/loopback.h"
#include "test.h"
#include "util/fork.h"
#include "util/guard.h"

enum { LARGE = 100000, KEY = 1 << 8 | 7 };

static struct {
	unsigned int count;
	uint32_t next_psn, byref;
	int err;
	uint8_t *into;
} got;

static uint8_t large[LARGE];
static bool published;

static bool key_read(const void *table, uint32_t n, uint32_t key, struct host_key *out)
{
	(void)table;
	(void)n;
	*out = (struct host_key){ .addr = (uintptr_t)large, .len = LARGE };
	return published && key == KEY;
}

static struct dest *asked; /* while it delivers, whether it has taken what was sent */
static struct link_mark mark;

static void deliver(void *arg, const struct seg *s)
{
	struct piece dst = { (uintptr_t)got.into, s->len, 0 };

	(void)arg;
	if (asked)
		check(!dest_has_taken(asked, &mark));
	check_eq(s->psn, got.next_psn++);
	check(s->from);
	got.count++;
	got.byref = s->flags & SEG_BYREF;
	if (got.byref)
		got.err = s->from->ops->fetch(s->from, s, 0, &dst, 1);
	else if (got.into && s->len)
		memcpy(got.into, s->data, s->len);
}

static unsigned int starved;

static void starve(void *arg)
{
	(void)arg;
	starved++;
}

static struct host *open_host(struct dest **d)
{
	const struct host_config cfg = { .n_keys = 4,
					 .key_bytes = 4096,
					 .key_read = key_read,
					 .deliver = deliver,
					 .starved = starve };
	struct host *h;

	memset(&got, 0, sizeof(got));
	check_eq(fork_init(), 0);
	check_eq(guard_init(), 0);
	guard_recheck(); /* cmocka sets handlers of its own */
	check_eq(host_create(&cfg, &h), 0);
	check_eq(host_dest(h, host_first_slot(h) << 14 | 9, d), 0);
	return h;
}

static void close_host(struct host *h, struct dest *d)
{
	d->ops->put(d);
	host_destroy(h);
}

static struct seg of(uint32_t psn, const struct piece *p)
{
	return (struct seg){
		.op = 4, .psn = psn, .npsn = 1, .len = p->len, .npieces = 1, .pieces = p
	};
}

TEST(a_number_of_ours_is_the_loopback)
{
	struct dest *d;
	struct host *h = open_host(&d);

	check_str(d->ops->name, "loopback");
	check(d->same_host);
	close_host(h, d);
}

TEST(nothing_is_delivered_inside_send_and_all_of_it_in_order_by_drain)
{
	char bytes[] = "abcdefg";
	uint8_t in[8];
	struct piece p = { (uintptr_t)bytes, 8, 0 };
	struct dest *d;
	struct host *h = open_host(&d);

	got.into = in;
	for (uint32_t i = 0; i < 100; i++) {
		struct seg s = of(i, &p);

		check_eq(dest_send(d, &s, NULL), 0);
	}
	memset(bytes, 0, sizeof(bytes)); /* send() has copied */
	check_eq(got.count, 0);
	check(host_has_own(h) && host_has_inbound(h));
	check_eq(host_drain(h, 30), 30);
	check_eq(host_drain(h, 1000), 70);
	check_mem(in, "abcdefg", 8);
	check(!host_has_own(h) && !host_has_inbound(h));
	close_host(h, d);
}

TEST(large_payload_stays_where_it_is_until_fetched_under_a_valid_key)
{
	struct piece p = { (uintptr_t)large, LARGE, KEY };
	struct seg s = of(0, &p);
	struct dest *d;
	struct host *h = open_host(&d);

	got.into = malloc(LARGE);
	published = true;
	check_eq(dest_send(d, &s, NULL), 0);
	memset(large, 0x77, LARGE);
	host_drain(h, 1);
	check(got.byref);
	check_eq(got.err, 0);
	check_mem(got.into, large, LARGE);
	published = false;
	s.psn = 1;
	check_eq(dest_send(d, &s, NULL), 0);
	host_drain(h, 1);
	check_eq(got.err, EREMOTEIO);
	free(got.into);
	close_host(h, d);
}

TEST(unmapped_payload_is_efault_and_nothing_arrives)
{
	struct piece p = { 4096, 64, 0 };
	struct seg s = of(0, &p);
	struct dest *d;
	struct host *h = open_host(&d);

	check_eq(dest_send(d, &s, NULL), EFAULT);
	check_eq(host_drain(h, 10), 0);
	close_host(h, d);
}

static unsigned int resumed;

static void resume(struct waiter *w)
{
	(void)w;
	resumed++;
}

TEST(a_full_queue_takes_waiters_and_calls_each_once_when_half_is_free)
{
	struct waiter w = { .resume = resume }, off = { .resume = resume };
	char byte = 0;
	struct piece p = { (uintptr_t)&byte, 1, 0 };
	struct dest *d;
	struct host *h = open_host(&d);
	uint32_t n = 0;
	struct seg s;
	int err;

	list_init(&w.node);
	list_init(&off.node);
	do {
		s = of(n, &p);
		err = dest_send(d, &s, &w);
		n += !err;
	} while (!err);
	check_eq(err, EAGAIN);
	check_eq(n, LOOPBACK_MAX);
	check_eq(dest_send(d, &s, &off), EAGAIN);
	d->ops->cancel(d, &off);
	host_drain(h, 10);
	check_eq(resumed, 0);
	host_drain(h, LOOPBACK_MAX / 2);
	check_eq(resumed, 1);
	host_drain(h, LOOPBACK_MAX);
	check_eq(resumed, 1);
	check_eq(starved, 0);
	close_host(h, d);
}

/* A sanitizer's allocator would end the program instead. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static int send_without_memory(struct dest *d, struct waiter *w)
{
	const struct piece p = { 4096, 1U << 30, 0 }; /* memory is asked for before it is read */
	struct seg s = of(0, &p);
	struct rlimit before, none;
	int err;

	getrlimit(RLIMIT_AS, &before);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	setrlimit(RLIMIT_AS, &none);
	s.flags = SEG_NO_REF;
	err = dest_send(d, &s, w);
	setrlimit(RLIMIT_AS, &before);
	return err;
}

/* The queue is empty: whoever drains it has to be told. */
TEST(who_waits_for_memory_says_so_and_is_called_by_the_next_drain)
{
	struct waiter w = { .resume = resume };
	struct dest *d;
	struct host *h = open_host(&d);

	starved = resumed = 0;
	list_init(&w.node);
	check_eq(send_without_memory(d, NULL), EAGAIN);
	check_eq(starved, 0);
	check(!host_own_waits(h));
	check_eq(send_without_memory(d, &w), EAGAIN);
	check_eq(starved, 1);
	check(host_own_waits(h) && !host_has_own(h));
	check_eq(host_drain(h, 10), 0);
	check_eq(resumed, 1);
	check(!host_own_waits(h));
	close_host(h, d);
}
#else
TEST(who_waits_for_memory_says_so_and_is_called_by_the_next_drain)
{
	skip();
}
#endif

/* What is still copied is not taken, however often a sender asks. */
TEST(a_segment_is_taken_when_it_was_delivered)
{
	static const uint8_t bytes[8];
	const struct piece p = { (uintptr_t)bytes, sizeof(bytes), 0 };
	struct dest *d;
	struct host *h = open_host(&d);
	struct seg s = of(0, &p);

	mark = (struct link_mark){ 0 };
	check(!dest_has_taken(d, &mark)); /* the first question has nothing to compare with */
	check_eq(dest_send(d, &s, NULL), 0);
	check(dest_has_taken(d, &mark));
	check(!dest_has_taken(d, &mark));
	asked = d;
	check_eq(host_drain(h, 8), 1);
	asked = NULL;
	check(dest_has_taken(d, &mark));
	close_host(h, d);
}

RUN_TESTS(unit_test(a_number_of_ours_is_the_loopback),
	  unit_test(a_segment_is_taken_when_it_was_delivered),
	  unit_test(nothing_is_delivered_inside_send_and_all_of_it_in_order_by_drain),
	  unit_test(large_payload_stays_where_it_is_until_fetched_under_a_valid_key),
	  unit_test(unmapped_payload_is_efault_and_nothing_arrives),
	  unit_test(a_full_queue_takes_waiters_and_calls_each_once_when_half_is_free),
	  unit_test(who_waits_for_memory_says_so_and_is_called_by_the_next_drain))
