// SPDX-License-Identifier: MIT
/* Tag matching, the driver's half: when a slot of the matching list is free again, and what
 * completions say. The device's half is a list and a CQ of memory alone. */
#include "queue.h"
#include "driver/dsrq_tags.h"
#include "hca/srq_tags.h"

enum { TAGS = 3, OPS = 2, SLOTS = 4, STRIDE = 32, CQES = 16 };

struct bench {
	struct dsrq *srq;
	struct srq dev;
	struct cq cq;
	uint32_t record;
	struct mlx5_cqe64 ring[CQES];
	uint8_t buf[SLOTS * STRIDE];
	uint64_t wr_id[SLOTS];
	uint32_t read; /* entries */
};

static void open_bench(struct bench *b)
{
	struct ibv_tm_cap cap = { .max_num_tags = TAGS, .max_ops = OPS };

	check_eq(fork_init(), 0);
	memset(b, 0, sizeof(*b));
	cqe_init(b->ring, CQES, sizeof(b->ring[0]));
	b->cq.buf = (uint8_t *)b->ring;
	b->cq.cnt = CQES;
	b->cq.cqe_size = sizeof(b->ring[0]);
	b->cq.dbrec = &b->record;
	spin_init(&b->cq.lock);
	spin_init(&b->dev.lock);
	check_eq(tag_list_create(&b->cq, TAGS, &b->dev.tags), 0);
	b->srq = aligned_alloc(64, sizeof(*b->srq));
	memset(b->srq, 0, sizeof(*b->srq));
	b->srq->dbrec = b->srq->record;
	b->srq->dev = &b->dev;
	b->srq->epoch = fork_epoch();
	b->srq->buf = b->buf;
	b->srq->wr_id = b->wr_id;
	b->srq->cnt = SLOTS;
	b->srq->stride = STRIDE;
	spin_init(&b->srq->lock);
	dsrq_ring_init(b->srq);
	check_eq(dsrq_tags_create(&cap, &b->srq->tags), 0);
}

static void close_bench(struct bench *b)
{
	tag_list_destroy(b->dev.tags);
	dsrq_tags_free(b->srq->tags);
	free(b->srq);
}

static int post(struct bench *b, struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad;

	return dsrq_post_ops(&b->srq->ib, wr, &bad);
}

static struct ibv_ops_wr add_of(uint64_t tag)
{
	return (struct ibv_ops_wr){
		.opcode = IBV_WR_TAG_ADD,
		.tm = { .add = { .recv_wr_id = 1000 + tag, .tag = tag, .mask = UINT64_MAX } }
	};
}

/* The completion that the device has pushed next. */
static struct dsrq_done next_done(struct bench *b)
{
	struct dsrq_done d;
	struct cqe c;

	check(cqe_ours(&b->ring[b->read % CQES], b->read, CQES));
	cqe_read(&b->ring[b->read++ % CQES], &c);
	put_be32(&b->record, b->read);
	check(dsrq_tags_done(b->srq, &c, &d));
	return d;
}

static struct dsrq_done done_of(struct bench *b, uint8_t app_op, uint16_t slot, uint8_t syndrome)
{
	struct cqe c = { .app_op = app_op, .app_info = slot, .syndrome = syndrome };
	struct dsrq_done d;

	check(dsrq_tags_done(b->srq, &c, &d));
	return d;
}

TEST(a_slot_is_free_when_its_last_completion_was_polled)
{
	struct ibv_ops_wr wr[TAGS + 1];
	struct dsrq_done d;
	struct bench b;

	open_bench(&b);
	for (unsigned int i = 0; i < TAGS; i++) {
		wr[i] = add_of(i);
		check_eq(post(&b, &wr[i]), 0);
		check_eq(wr[i].tm.handle, i);
	}
	wr[TAGS] = add_of(9);
	check_eq(post(&b, &wr[TAGS]), ENOMEM);
	check_reason("all 3 tags of SRQ 0x0 are in use");
	d = done_of(&b, TAG_CQE_CONSUMED, 1, 0); /* the data is still to come */
	check_eq(d.wr_id, 1001);
	check_eq(d.flags, IBV_WC_TM_MATCH);
	check_eq(post(&b, &wr[TAGS]), ENOMEM);
	d = done_of(&b, TAG_CQE_EXPECTED, 1, 0);
	check_eq(d.flags, IBV_WC_TM_DATA_VALID);
	check_eq(d.op, IBV_WC_TM_RECV);
	check_eq(post(&b, &wr[TAGS]), 0);
	check_eq(wr[TAGS].tm.handle, 1);
	d = done_of(&b, TAG_CQE_CONSUMED, 0,
		    MLX5_CQE_SYNDROME_LOCAL_PROT_ERR); /* no data will come */
	check_eq(post(&b, &wr[0]), 0);
	d = done_of(&b, TAG_CQE_MESSAGE, 2, 0);
	check_eq(d.flags, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID);
	check_eq(d.status, IBV_WC_SUCCESS);
	d = done_of(&b, TAG_CQE_SOFTWARE, 0, 0);
	check_eq(d.status, IBV_WC_TM_RNDV_INCOMPLETE);
	close_bench(&b);
}

TEST(completions_of_what_was_not_asked_for_are_skipped)
{
	struct dsrq_done d;
	struct bench b;

	open_bench(&b);
	check(!dsrq_tags_done(b.srq, &(struct cqe){ .app_op = TAG_CQE_MESSAGE, .app_info = 0 },
			      &d));
	check(!dsrq_tags_done(b.srq, &(struct cqe){ .app_op = TAG_CQE_MESSAGE, .app_info = TAGS },
			      &d));
	check(!dsrq_tags_done(b.srq, &(struct cqe){ .app_op = 9 }, &d));
	close_bench(&b);
}

TEST(a_deleted_tag_gives_its_slot_back_unless_a_message_was_faster)
{
	struct ibv_ops_wr add[2] = { add_of(5), add_of(6) }, del = { .opcode = IBV_WR_TAG_DEL };
	struct rwqe w;
	struct bench b;
	bool matched;

	open_bench(&b);
	for (int i = 0; i < 2; i++)
		check_eq(post(&b, &add[i]), 0);
	check_eq(srq_tags_take(&b.dev, 6, &w, &matched), 0);
	check(matched && w.idx == 1);
	del.flags = IBV_OPS_SIGNALED;
	del.wr_id = 70;
	del.tm.handle = 0;
	check_eq(post(&b, &del), 0);
	check_eq(next_done(&b).status, IBV_WC_SUCCESS);
	check_eq(post(&b, &del), EINVAL); /* it is free */
	check_reason("handle 0 is none that IBV_WR_TAG_ADD gave");
	del.tm.handle = 1;
	check_eq(post(&b, &del), 0);
	struct dsrq_done d = next_done(&b);

	check_eq(d.op, IBV_WC_TM_DEL);
	check_eq(d.wr_id, 70);
	check_eq(d.status, IBV_WC_TM_ERR); /* too late */
	check_eq(done_of(&b, TAG_CQE_MESSAGE, 1, 0).wr_id, 1006);
	close_bench(&b);
}

TEST(max_ops_signalled_operations_at_once)
{
	struct ibv_ops_wr sync = { .opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_SIGNALED };
	struct bench b;

	open_bench(&b);
	for (unsigned int i = 0; i < 20; i++) {
		for (sync.wr_id = 10; sync.wr_id < 10 + OPS; sync.wr_id++)
			check_eq(post(&b, &sync), 0);
		check_eq(post(&b, &sync), ENOMEM);
		check_reason("all 2 operations of SRQ 0x0 are outstanding");
		for (uint64_t id = 10; id < 10 + OPS; id++) {
			struct dsrq_done d = next_done(&b);

			check_eq(d.wr_id, id);
			check_eq(d.op, IBV_WC_TM_SYNC);
			check_eq(d.flags, 0);
		}
	}
	close_bench(&b);
}

/* The device has counted a message that the program does not know of yet. */
TEST(a_completion_asks_for_a_sync_when_the_counts_differ)
{
	struct ibv_ops_wr sync = { .opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_SIGNALED };
	struct bench b;

	open_bench(&b);
	b.dev.tags->unexpected = 1;
	check_eq(post(&b, &sync), 0);
	check_eq(next_done(&b).flags, IBV_WC_TM_SYNC_REQ);
	sync.tm.unexpected_cnt = 1;
	check_eq(post(&b, &sync), 0);
	check_eq(next_done(&b).flags, 0);
	close_bench(&b);
}

RUN_TESTS(unit_test(a_slot_is_free_when_its_last_completion_was_polled),
	  unit_test(completions_of_what_was_not_asked_for_are_skipped),
	  unit_test(a_deleted_tag_gives_its_slot_back_unless_a_message_was_faster),
	  unit_test(max_ops_signalled_operations_at_once),
	  unit_test(a_completion_asks_for_a_sync_when_the_counts_differ))
