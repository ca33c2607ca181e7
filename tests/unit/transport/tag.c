// SPDX-License-Identifier: MIT
/* Tag matching: what is left out of a message's first segment. */
#include "hca/srq_tags.h"
#include "test.h"
#include "transport/tag.h"

/* The sender may repeat it by value, with fewer bytes than when its header was read. */
TEST(a_segment_that_comes_again_shorter_has_no_more_left_out_than_it_has)
{
	static const struct {
		uint8_t what;
		uint32_t len, skip;
	} of[] = {
		{ TAG_CQE_MESSAGE, 100, 16 },  { TAG_CQE_MESSAGE, 16, 16 },
		{ TAG_CQE_MESSAGE, 15, 15 },   { TAG_CQE_MESSAGE, 0, 0 },
		{ TAG_CQE_SOFTWARE, 15, 15 },  { TAG_CQE_CONSUMED, 100, 100 },
		{ TAG_CQE_UNEXPECTED, 15, 0 },
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct seg s = { .len = of[i].len };
		static struct tqp q;
		uint32_t skip = 99;

		q.rsp.have_rwqe = true; /* taken when it came first */
		q.rsp.tag.what = of[i].what;
		check_eq(tag_begin(&q, &s, &skip), PLACE_DONE);
		check_eq(skip, of[i].skip);
	}
}

RUN_TESTS(unit_test(a_segment_that_comes_again_shorter_has_no_more_left_out_than_it_has))
