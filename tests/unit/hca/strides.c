// SPDX-License-Identifier: MIT
#include "fixture.h"
#include "hca/strides.h"
#include "util/be.h"
#include "util/rand.h"

enum { CNT = 4, STRIDE = 32, LEAD = 16 };

struct ring {
	uint8_t buf[CNT * STRIDE];
	uint32_t dbrec;
	struct rq rq;
	uint16_t posted;
};

static void post(struct ring *r, uint16_t n)
{
	r->posted += n;
	put_be32(&r->dbrec, r->posted);
}

/* WQE i has one SGE, at address i behind a next segment that names itself; @first: the number of
 * the first one. */
static void open_ring(struct ring *r, struct strides *s, struct stride_form form, uint16_t first)
{
	memset(r, 0, sizeof(*r));
	memset(s, 0, sizeof(*s));
	for (uint32_t i = 0; i < CNT; i++) {
		uint8_t *p = r->buf + (size_t)i * STRIDE;

		memset(p, (int)i, LEAD);
		put_be32(p + LEAD, 1U << form.size_log << form.count_log);
		put_be32(p + LEAD + 4, 0x200);
		put_be64(p + LEAD + 8, i);
	}
	r->rq = (struct rq){ { r->buf, CNT, STRIDE, &r->dbrec }, first };
	r->posted = first;
	post(r, 0);
	strides_init(s, &form);
}

TEST(a_queue_without_strides_has_no_receive_in_hand)
{
	const struct stride_form none = { 0 };
	struct strides s;

	strides_init(&s, &none);
	check(!strides_end(&s));
	check(!strides_end(&s));
}

TEST(each_frame_gets_the_next_whole_strides)
{
	const struct stride_form form = { .size_log = 6, .count_log = 3 };
	struct stride_run run;
	struct strides s;
	struct ring r;

	open_ring(&r, &s, form, 0);
	check_eq(strides_take(&s, &r.rq, 64, &run), STRIDES_NONE);
	post(&r, 1);
	check_eq(strides_take(&s, &r.rq, 64, &run), STRIDES_FRAME);
	check_eq(run.first, 0);
	check_eq(run.n, 1);
	check_eq(strides_take(&s, &r.rq, 65, &run), STRIDES_FRAME);
	check_eq(run.first, 1);
	check_eq(run.n, 2);
	check_eq(strides_at(&s, run.first), 64);
	check_eq(strides_take(&s, &r.rq, 5 * 64, &run), STRIDES_FRAME);
	check_eq(run.first, 3);
	check_eq(run.n, 5);
	check(!strides_end(&s)); /* its last stride is taken */
	check_eq(strides_take(&s, &r.rq, 1, &run), STRIDES_NONE);
}

TEST(what_is_left_is_passed_over_though_no_other_is_posted)
{
	const struct stride_form form = { .size_log = 6, .count_log = 3 };
	struct stride_run run;
	struct strides s;
	struct ring r;

	open_ring(&r, &s, form, 0);
	post(&r, 1);
	check_eq(strides_take(&s, &r.rq, 6 * 64, &run), STRIDES_FRAME);
	check_eq(strides_take(&s, &r.rq, 2 * 64 + 1, &run), STRIDES_REST);
	check_eq(run.first, 6);
	check_eq(run.n, 2);
	check_eq(strides_take(&s, &r.rq, 1, &run), STRIDES_NONE);
	post(&r, 1);
	check_eq(strides_take(&s, &r.rq, 1, &run), STRIDES_FRAME);
	check_eq(s.wqe.idx, 1);
	check_eq(run.first, 0);
}

TEST(a_frame_that_no_receive_can_take_ends_the_one_in_hand)
{
	const struct stride_form form = { .size_log = 6, .count_log = 3 };
	struct stride_run run;
	struct strides s;
	struct ring r;

	open_ring(&r, &s, form, 0);
	check_eq(strides_take(&s, &r.rq, 8 * 64 + 1, &run), STRIDES_NONE);
	post(&r, 2);
	check_eq(strides_take(&s, &r.rq, 64, &run), STRIDES_FRAME);
	check_eq(strides_take(&s, &r.rq, 8 * 64 + 1, &run), STRIDES_LONG);
	check_eq(s.wqe.idx, 0);
	check_eq(strides_take(&s, &r.rq, 8 * 64 + 1, &run), STRIDES_LONG);
	check_eq(s.wqe.idx, 1);
	check(!strides_end(&s));
}

TEST(one_in_hand_is_given_up_once)
{
	const struct stride_form form = { .size_log = 6, .count_log = 3 };
	struct stride_run run;
	struct strides s;
	struct ring r;

	open_ring(&r, &s, form, 0);
	post(&r, 2);
	check_eq(strides_take(&s, &r.rq, 64, &run), STRIDES_FRAME);
	check(strides_end(&s));
	check(!strides_end(&s));
	check_eq(strides_take(&s, &r.rq, 64, &run), STRIDES_FRAME);
	check_eq(s.wqe.idx, 1);
	check_eq(run.first, 0);
}

/* Around the ring and the 16 bits of its numbers: runs follow each other without a gap, and each
 * WQE's are all of its strides. */
TEST(any_frames_take_every_stride_once)
{
	static const struct stride_form forms[] = { { 6, 3 }, { 6, 7 }, { 9, 4 }, { 13, 3 } };
	uint64_t seed = 1;

	for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
		uint32_t total = 1U << forms[f].count_log, used = 0;
		uint32_t most = 1U << forms[f].size_log << forms[f].count_log;
		uint16_t wqe = 0xfff0;
		struct stride_run run;
		struct strides s;
		struct ring r;

		open_ring(&r, &s, forms[f], wqe);
		for (uint32_t i = 0; i < 20000; i++) {
			uint32_t len = 1 + (uint32_t)(rand_mix(&seed) % most);
			enum strides_found found;

			post(&r, (uint16_t)(CNT - rq_posted(&r.rq)));
			found = strides_take(&s, &r.rq, len, &run);
			check(found == STRIDES_FRAME || found == STRIDES_REST);
			check_eq(s.wqe.idx, wqe);
			check_eq(s.wqe.sge[0].addr, wqe % CNT);
			check_eq(run.first, used);
			used += run.n;
			check(used <= total);
			if (found == STRIDES_FRAME)
				check((uint64_t)run.n << forms[f].size_log >= len &&
				      (uint64_t)(run.n - 1) << forms[f].size_log < len);
			else
				check_eq(used, total);
			if (used == total) {
				used = 0;
				wqe++;
			}
		}
	}
}

RUN_TESTS(unit_test(a_queue_without_strides_has_no_receive_in_hand),
	  unit_test(each_frame_gets_the_next_whole_strides),
	  unit_test(what_is_left_is_passed_over_though_no_other_is_posted),
	  unit_test(a_frame_that_no_receive_can_take_ends_the_one_in_hand),
	  unit_test(one_in_hand_is_given_up_once), unit_test(any_frames_take_every_stride_once))
