// SPDX-License-Identifier: MIT
#include "fixture.h"
#include "hca/srq_tags.h"
#include "util/be.h"

enum { CNT = 8, STRIDE = 32, ENTRIES = 16, TAGS = 4 };

struct bench {
	struct fixture *f;
	struct cq *cq;
	struct srq *srq;
	struct mlx5_cqe64 cqe[ENTRIES];
	uint32_t cq_dbrec[2], dbrec;
	uint8_t ring[CNT * STRIDE];
};

static void open_bench(struct bench *b)
{
	struct cq_attr cq = {
		.buf = b->cqe, .cnt = ENTRIES, .cqe_size = sizeof(b->cqe[0]), .dbrec = b->cq_dbrec
	};
	struct srq_attr srq = { .ring = { b->ring, CNT, STRIDE, &b->dbrec },
				.max_wr = CNT - 1,
				.max_sge = 1,
				.uidx = 77,
				.max_num_tags = TAGS };

	memset(b, 0, sizeof(*b));
	b->f = fixture_open(8);
	cqe_init(b->cqe, ENTRIES, sizeof(b->cqe[0]));
	check_eq(cq_create(b->f->ctx, &cq, &b->cq), 0);
	for (int i = 0; i < CNT; i++)
		put_be16(b->ring + i * STRIDE + 2, (uint16_t)((i + 1) % CNT));
	srq.tm_cq = b->cq;
	check_eq(srq_create(b->f->pd, &srq, &b->srq), 0);
	put_be32(&b->dbrec, CNT - 1);
}

static void close_bench(struct bench *b)
{
	check_eq(cq_destroy(b->cq), EBUSY); /* the SRQ's */
	check_eq(srq_destroy(b->srq), 0);
	check_eq(cq_destroy(b->cq), 0);
	fixture_close(b->f);
}

static void add(struct bench *b, uint16_t slot, uint64_t tag, uint64_t mask)
{
	struct tag_ask ask = { .op = TAG_ADD,
			       .slot = slot,
			       .tag = tag,
			       .mask = mask,
			       .nsge = 1,
			       .sge = { { 0x1000U * (slot + 1U), 100, 5 } } };

	check(srq_tags_do(b->srq, &ask));
}

static bool del(struct bench *b, uint16_t slot)
{
	return srq_tags_do(b->srq, &(struct tag_ask){ .op = TAG_DEL, .slot = slot });
}

static void sync_to(struct bench *b, uint16_t count)
{
	check(srq_tags_do(b->srq,
			  &(struct tag_ask){ .op = TAG_SYNC, .sync = true, .count = count }));
}

/* Which slot a message with @tag takes; -1: an ordinary receive. */
static int take(struct bench *b, uint64_t tag)
{
	struct rwqe w;
	bool matched;

	check_eq(srq_tags_take(b->srq, tag, &w, &matched), 0);
	if (!matched)
		return -1;
	check_eq(w.nsge, 1);
	check_eq(w.len, 100);
	check_eq(w.sge[0].addr, 0x1000U * (w.idx + 1U));
	return w.idx;
}

TEST(the_first_added_that_matches_is_taken)
{
	struct bench b;

	open_bench(&b);
	add(&b, 2, 0x10, 0xf0);
	add(&b, 0, 0x10, 0xf0);
	add(&b, 1, 0, 0);
	check_eq(take(&b, 0x1f), 2);
	check_eq(take(&b, 0x1f), 0);
	check_eq(take(&b, 0x1f), 1);
	check_eq(take(&b, 0x1f), -1);
	close_bench(&b);
}

TEST(what_was_deleted_is_not_taken_and_what_was_taken_not_deleted)
{
	struct bench b;

	open_bench(&b);
	add(&b, 0, 1, UINT64_MAX);
	add(&b, 1, 2, UINT64_MAX);
	check(del(&b, 0));
	check(!del(&b, 0));
	check_eq(take(&b, 2), 1);
	check(!del(&b, 1));
	check_eq(take(&b, 1), -1);
	close_bench(&b);
}

TEST(a_buffer_waits_until_the_counts_meet)
{
	struct bench b;

	open_bench(&b);
	add(&b, 0, 1, UINT64_MAX);
	check_eq(take(&b, 9), -1);
	add(&b, 1, 2, UINT64_MAX); /* the program has not seen message 9 yet */
	check_eq(take(&b, 2), -1);
	check_eq(take(&b, 1), 0); /* was there before */
	sync_to(&b, 1);
	check_eq(take(&b, 2), -1);
	sync_to(&b, 3);
	check_eq(take(&b, 2), 1);
	close_bench(&b);
}

/* A message that finds no receive has not arrived: it is counted when it comes again. */
TEST(a_message_without_a_receive_is_not_counted)
{
	struct bench b;
	struct rwqe w;
	bool matched;

	open_bench(&b);
	put_be32(&b.dbrec, 0);
	check_eq(srq_tags_take(b.srq, 5, &w, &matched), ENOENT);
	add(&b, 0, 5, UINT64_MAX);
	check_eq(take(&b, 5), 0);
	close_bench(&b);
}

TEST(completions_say_what_was_done)
{
	struct tag_ask ask = { .op = TAG_DEL, .slot = 3, .signaled = true, .op_index = 9 };
	struct bench b;
	struct cqe c;

	open_bench(&b);
	check_eq(take(&b, 5), -1);
	check(!srq_tags_do(b.srq, &ask));
	check(cqe_ours(&b.cqe[0], 0, ENTRIES));
	cqe_read(&b.cqe[0], &c);
	check_eq(c.opcode, MLX5_CQE_NO_PACKET);
	check_eq(c.app_op, TAG_CQE_DEL);
	check_eq(c.app_info, 3);
	check_eq(c.wqe_counter, 9);
	check_eq(c.uidx, 77);
	check_eq(c.tm_phase, 1);
	check(!c.tm_success);
	close_bench(&b);
}

RUN_TESTS(unit_test(the_first_added_that_matches_is_taken),
	  unit_test(what_was_deleted_is_not_taken_and_what_was_taken_not_deleted),
	  unit_test(a_buffer_waits_until_the_counts_meet),
	  unit_test(a_message_without_a_receive_is_not_counted),
	  unit_test(completions_say_what_was_done))
