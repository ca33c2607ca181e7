// SPDX-License-Identifier: MIT
#include <errno.h>
#include "peers/ring.h"
#include "test.h"
#include "util/rand.h"

enum { RUNS = 20000 };

struct pair {
	void *mem;
	struct ring in, out;
};

static void pair_open(struct pair *p)
{
	p->mem = aligned_alloc(4096, RING_CTL + RING_MIN);
	memset(p->mem, 0, RING_CTL + RING_MIN);
	ring_init(&p->in, p->mem, RING_MIN);
	ring_init(&p->out, p->mem, RING_MIN);
}

/* A record of @bytes filled with @n; false: full. */
static bool write_one(struct pair *p, uint32_t bytes, uint8_t n)
{
	uint8_t *rec;
	int err = ring_reserve(&p->out, bytes, &rec);

	if (err == EAGAIN)
		return false;
	check_eq(err, 0);
	memset(rec + 8, n, bytes - 8);
	ring_publish(&p->out, ring_word(RING_SEG, bytes, n));
	return true;
}

static bool read_one(struct pair *p, uint8_t n, bool *told)
{
	const uint8_t *rec;
	uint32_t bytes;
	uint64_t word;
	int err = ring_peek(&p->in, &word, &rec, &bytes);

	if (err == EAGAIN)
		return false;
	check_eq(err, 0);
	check_eq(ring_word_info(word), n);
	for (uint32_t i = 8; i < bytes; i++)
		check_eq(rec[i], n);
	*told |= ring_advance(&p->in, bytes);
	return true;
}

static bool has_space(struct pair *p)
{
	bool anew;
	int err = ring_moved_on(&p->out, &anew);

	check(!err || err == EAGAIN);
	return !err;
}

TEST(records_of_any_size_arrive_whole_and_in_order_through_every_wrap)
{
	struct rand r;
	struct pair p;
	uint8_t in = 0, out = 0;
	bool told = false;

	pair_open(&p);
	rand_init(&r, 7);
	for (int i = 0; i < RUNS; i++) {
		uint32_t max = rand_chance(&r, 0.1) ? RING_RECORD_MAX / RING_LINE : 8;
		uint32_t bytes = (uint32_t)(1 + rand_below(&r, max)) * RING_LINE;

		while (!write_one(&p, bytes, out)) {
			check(!has_space(&p));
			check(read_one(&p, in++,
				       &told)); /* full means there is something to read */
			if (ring_settle(&p.in))
				check(has_space(&p));
		}
		out++;
		if (rand_chance(&r, 0.3) && read_one(&p, in, &told))
			in++;
	}
	while (read_one(&p, in, &told))
		in++;
	check_eq(in, out);
	free(p.mem);
}

TEST(a_consumer_that_looks_tells_its_position_and_one_that_does_not_tells_nothing)
{
	bool told = false;
	struct pair p;

	pair_open(&p);
	check(write_one(&p, 64, 0));
	check_eq(ring_ask(&p.out, &told), 0);
	check(told);
	check_eq(ring_ask(&p.out, &told), 0);
	check(!told);
	check(has_space(&p));
	check(read_one(&p, 0, &told));
	check(!ring_settle(&p.in)); /* nobody waits for space */
	check_eq(ring_ask(&p.out, &told), 0);
	check(told);
	check_eq(p.out.seen, p.out.pos);
	p.out.ctl->pos = 0; /* it has ended, and given the memory back */
	check_eq(ring_ask(&p.out, &told), 0);
	check_eq(p.out.seen, p.out.pos);
	p.out.ctl->pos = 4096;
	check_eq(ring_ask(&p.out, &told), EPROTO);
	free(p.mem);
}

/* The producer asks for its position while it waits for space, and the other way round. */
TEST(a_question_for_the_position_does_not_take_the_wish_for_space_away)
{
	bool told = false;
	uint8_t n = 0, m = 0;
	struct pair p;

	for (int first = 0; first < 2; first++) {
		pair_open(&p);
		n = m = 0;
		check_eq(first ? ring_ask(&p.out, &told) : 0, 0);
		while (write_one(&p, 1024, n))
			n++;
		check_eq(ring_ask(&p.out, &told), 0);
		check(!told);
		check(read_one(&p, m++, &told));
		check(ring_settle(&p.in));
		check(has_space(&p));
		free(p.mem);
	}
}

TEST(a_full_ring_asks_for_space_and_the_consumer_tells_when_there_is_some)
{
	bool told = false;
	uint8_t n = 0, m = 0;
	struct pair p;

	pair_open(&p);
	while (write_one(&p, 1024, n))
		n++;
	check(!has_space(&p));
	while (read_one(&p, m, &told))
		m++;
	told |= ring_settle(&p.in);
	check(told);
	check(has_space(&p));
	check(write_one(&p, 1024, n));
	free(p.mem);
}

/* Honest ones do it once: they have told their position just before the producer asked. */
TEST(a_consumer_that_answers_without_having_moved_on_is_asked_again)
{
	bool told = false, anew = false;
	uint8_t n = 0;
	struct pair p;

	pair_open(&p);
	while (write_one(&p, 1024, n))
		n++;
	for (int i = 0; i < 3; i++) {
		check(ring_settle(&p.in));
		check_eq(ring_moved_on(&p.out, &anew), EAGAIN);
		check(anew);
		check_eq(ring_moved_on(&p.out, &anew), EAGAIN);
		check(!anew);
	}
	check(read_one(&p, 0, &told));
	check(ring_settle(&p.in));
	check(has_space(&p));
	p.in.ctl->pos = p.out.pos + RING_LINE;
	check_eq(ring_moved_on(&p.out, &anew), EPROTO);
	free(p.mem);
}

TEST(the_largest_record_fits_an_empty_ring_at_every_position)
{
	bool told = false;
	struct pair p;

	pair_open(&p);
	for (uint32_t i = 0; i < RING_MIN / RING_LINE; i++) {
		check(write_one(&p, RING_LINE, 1));
		check(read_one(&p, 1, &told));
		if (!write_one(&p, RING_RECORD_MAX, 2)) {
			check(ring_settle(&p.in));
			check(write_one(&p, RING_RECORD_MAX, 2));
		}
		check(read_one(&p, 2, &told));
	}
	free(p.mem);
}

TEST(random_bytes_never_lead_the_consumer_out_of_the_ring)
{
	const uint8_t *rec;
	uint32_t bytes;
	uint64_t word;
	struct rand r;
	struct pair p;

	pair_open(&p);
	rand_init(&r, 3);
	for (int run = 0; run < 2000; run++) {
		uint64_t *words = (uint64_t *)p.in.data;

		for (uint32_t i = 0; i < RING_MIN / 8; i += 8)
			words[i] = rand_chance(&r, 0.5) ? rand_u64(&r)
							: ring_word(1 + rand_below(&r, 3),
								    rand_below(&r, 64) * 64, i);
		for (int i = 0; i < 100; i++) {
			if (ring_peek(&p.in, &word, &rec, &bytes))
				break;
			check(rec >= p.in.data && rec + bytes <= p.in.data + p.in.size && bytes);
			ring_advance(&p.in, bytes);
		}
	}
	free(p.mem);
}

TEST(a_consumer_position_out_of_bounds_is_an_error)
{
	static const uint64_t bad[] = { 1, 63, 1 << 20, UINT64_MAX, UINT64_MAX - 63 };
	uint8_t *rec;
	struct pair p;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pair_open(&p);
		while (write_one(&p, RING_RECORD_MAX, 0))
			;
		p.in.ctl->pos = bad[i];
		check_eq(ring_reserve(&p.out, RING_RECORD_MAX, &rec), EPROTO);
		free(p.mem);
	}
}

RUN_TESTS(unit_test(records_of_any_size_arrive_whole_and_in_order_through_every_wrap),
	  unit_test(a_consumer_that_looks_tells_its_position_and_one_that_does_not_tells_nothing),
	  unit_test(a_question_for_the_position_does_not_take_the_wish_for_space_away),
	  unit_test(a_full_ring_asks_for_space_and_the_consumer_tells_when_there_is_some),
	  unit_test(a_consumer_that_answers_without_having_moved_on_is_asked_again),
	  unit_test(the_largest_record_fits_an_empty_ring_at_every_position),
	  unit_test(random_bytes_never_lead_the_consumer_out_of_the_ring),
	  unit_test(a_consumer_position_out_of_bounds_is_an_error))
