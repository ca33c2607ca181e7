// SPDX-License-Identifier: MIT
/* The free list of a shared receive queue's slots: posting takes its first, a completion appends to
 * its end, and another ring keeps the slots that are in use. */
#include "queue.h"
#include "driver/dsrq_ring.h"

enum { STRIDE = 32, MOST = 64 };

struct shared {
	struct dsrq *srq;
	uint8_t buf[2][MOST * STRIDE];
	uint64_t wr_id[2][MOST];
};

static void open_shared(struct shared *s, uint32_t slots)
{
	struct dsrq *srq = aligned_alloc(64, sizeof(*srq));

	check_eq(fork_init(), 0);
	memset(s, 0, sizeof(*s));
	memset(&rung, 0, sizeof(rung));
	memset(srq, 0, sizeof(*srq));
	srq->dbrec = srq->record;
	srq->epoch = fork_epoch();
	srq->buf = srq->memory.at = s->buf[0];
	srq->wr_id = s->wr_id[0];
	srq->cnt = slots;
	srq->stride = STRIDE;
	srq->max_wr = slots - 1;
	srq->max_sge = 1;
	spin_init(&srq->lock);
	dsrq_ring_init(srq);
	s->srq = srq;
}

static int post(struct shared *s, uint64_t id)
{
	struct ibv_sge sg = { 0x1000 + id, (uint32_t)id + 1, 7 };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sg, .num_sge = 1 }, *bad;

	return dsrq_post_recv(&s->srq->ib, &wr, &bad);
}

/* Slots that the device would take next from @first on. */
static uint16_t link_of(const struct shared *s, uint32_t slot)
{
	return get_be16(s->srq->buf + slot * STRIDE + 2);
}

TEST(slots_hold_one_more_than_max_wr)
{
	static const struct {
		uint32_t max_wr, slots;
	} map[] = { { 0, 2 }, { 1, 2 }, { 2, 4 }, { 3, 4 }, { 4, 8 }, { 7, 8 }, { 8, 16 } };

	for (unsigned int i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		check_eq(dsrq_ring_slots(map[i].max_wr), map[i].slots);
	check_eq(dsrq_ring_slots(0x7fff), 0x8000);
}

TEST(a_new_ring_is_linked_slot_by_slot)
{
	struct shared s;

	open_shared(&s, 8);
	for (uint16_t i = 0; i < 8; i++)
		check_eq(link_of(&s, i), (i + 1) % 8); /* the last link is 0, which UCX asserts */
	free(s.srq);
}

TEST(max_wr_receives_can_be_posted_and_not_one_more)
{
	struct shared s;

	open_shared(&s, 8);
	for (uint64_t i = 0; i < 7; i++)
		check_eq(post(&s, i), 0);
	check_eq(post(&s, 7), ENOMEM);
	check_reason("all 7 work requests of SRQ 0x0 are posted");
	check_eq(be32toh(s.srq->dbrec[0]), 7);
	for (uint32_t i = 0; i < 7; i++) {
		check_eq(get_be32(s.buf[0] + i * STRIDE + 16), i + 1);
		check_eq(get_be64(s.buf[0] + i * STRIDE + 24), 0x1000 + i);
	}
	check_eq(rung.srq, 8); /* each call rings, the refused one too */
	free(s.srq);
}

/* In whatever order completions come: each slot is posted again in the order it became free, and
 * the device finds it by following the links. */
TEST(slots_are_used_again_in_the_order_in_which_they_became_free)
{
	static const uint16_t order[] = { 5, 0, 6, 3, 1, 2, 4 };
	struct shared s;
	uint32_t at;

	open_shared(&s, 8);
	for (uint64_t i = 0; i < 7; i++)
		check_eq(post(&s, i), 0);
	check_eq(s.srq->head, 7); /* the one that was left free */
	for (unsigned int i = 0; i < 7; i++)
		check_eq(dsrq_ring_complete(s.srq, order[i]), order[i]);
	check_eq(s.srq->used, 0);
	at = s.srq->head;
	for (unsigned int i = 0; i < 7; i++) {
		check_eq(post(&s, 100 + i), 0);
		check_eq(s.wr_id[0][at], 100 + i);
		at = link_of(&s, at);
		check_eq(at, order[i]);
	}
	check_eq(s.srq->head, 4);
	free(s.srq);
}

TEST(a_larger_ring_keeps_the_slots_that_are_in_use)
{
	struct shared s;

	open_shared(&s, 4);
	for (uint64_t i = 0; i < 3; i++)
		check_eq(post(&s, 10 + i), 0);
	check_eq(dsrq_ring_complete(s.srq, 1), 11); /* 0 and 2 are in use; free: 3, 1 */
	struct dsrq_memory n = { { .at = s.buf[1] }, s.wr_id[1], 8 };

	check(!dsrq_ring_switch(s.srq, &n));
	check(n.ring.at == s.buf[0] && n.wr_id == s.wr_id[0] && n.cnt == 4); /* the old one */
	check_eq(s.srq->cnt, 8);
	check_eq(get_be32(s.buf[1] + 2 * STRIDE + 16), 13); /* WQEs in use came along */
	s.srq->max_wr = 7;
	static const uint16_t free_slots[] = { 3, 1, 4, 5, 6 };

	for (unsigned int i = 0; i < 5; i++) {
		check_eq(s.srq->head, free_slots[i]);
		check_eq(post(&s, 20 + i), 0);
	}
	check_eq(post(&s, 0), ENOMEM);
	check_eq(dsrq_ring_complete(s.srq, 2), 12);
	check_eq(dsrq_ring_complete(s.srq, 0), 10);
	check_eq(dsrq_ring_complete(s.srq, 3), 20);
	static const uint16_t freed[] = { 7, 2, 0 };

	for (unsigned int i = 0; i < 3; i++) {
		check_eq(s.srq->head, freed[i]);
		check_eq(post(&s, 30 + i), 0);
	}
	check_eq(s.srq->head, 3);
	check_eq(get_be32(s.buf[1] + 3 * STRIDE + 16), 21);
	free(s.srq);
}

TEST(a_smaller_ring_starts_anew)
{
	struct shared s;

	open_shared(&s, 8);
	for (uint64_t i = 0; i < 5; i++)
		check_eq(post(&s, i), 0);
	for (uint16_t i = 0; i < 5; i++)
		dsrq_ring_complete(s.srq, (uint16_t)(4 - i));
	struct dsrq_memory n = { { .at = s.buf[1] }, s.wr_id[1], 4 };

	check(dsrq_ring_switch(s.srq, &n));
	check_eq(s.srq->head, 0);
	check_eq(s.srq->tail, 3);
	for (uint16_t i = 0; i < 4; i++)
		check_eq(link_of(&s, i), (i + 1) % 4);
	free(s.srq);
}

TEST(too_many_sges_are_refused)
{
	struct ibv_sge sg[2] = { { 1, 1, 1 }, { 2, 2, 2 } };
	struct ibv_recv_wr wr[2] = { { .next = &wr[1], .wr_id = 5 }, { .sg_list = sg } }, *bad;
	struct shared s;

	open_shared(&s, 4);
	for (int n = -1; n <= 2; n += 3) {
		wr[1].num_sge = n;
		check_eq(dsrq_post_recv(&s.srq->ib, wr, &bad), EINVAL);
		check(bad == &wr[1]);
	}
	check_reason("num_sge 2, SRQ 0x0 was created with max_sge 1");
	check_eq(be32toh(s.srq->dbrec[0]), 2); /* what came before was posted */
	s.srq->epoch++;
	check_eq(dsrq_post_recv(&s.srq->ib, wr, &bad), EIO);
	free(s.srq);
}

RUN_TESTS(unit_test(slots_hold_one_more_than_max_wr), unit_test(a_new_ring_is_linked_slot_by_slot),
	  unit_test(max_wr_receives_can_be_posted_and_not_one_more),
	  unit_test(slots_are_used_again_in_the_order_in_which_they_became_free),
	  unit_test(a_larger_ring_keeps_the_slots_that_are_in_use),
	  unit_test(a_smaller_ring_starts_anew), unit_test(too_many_sges_are_refused))
