// SPDX-License-Identifier: MIT
/* WRITEs and READs by direct access in few steps: what goes so, that it leaves behind what the
 * general way leaves, and that all else goes the general way. */
#include "pair.h"
#include "transport/predicted/predicted.h"

static struct fake {
	struct link_ops ops;
	struct direct_ask ask; /* the last */
	struct piece piece; /* its first */
	int calls, answer;
} fake;

static int fake_direct(struct dest *d, struct direct_ask *ask)
{
	(void)d;
	fake.calls++;
	fake.ask = *ask;
	fake.piece = ask->pieces[0];
	if (!fake.answer)
		ask->done = ask->len;
	return fake.answer;
}

/* A pair that has exchanged a message, and whose memory is reached then. */
static struct pair *open_pair(void)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	fake = (struct fake){ .ops = *p->a->end.d.ops };
	fake.ops.direct = fake_direct;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	p->a->end.d.ops = &fake.ops;
	p->a->q.qp.sq_sig_all = false;
	return p;
}

/* Posts it without a doorbell: all of it was done. */
static bool in_few_steps(struct pair *p, const struct rig_wr *w)
{
	rig_write(p->a, w);
	return predicted_one_sided(&p->a->q, p->rig.net.now);
}

struct left {
	uint64_t flags, ask_psn, sqpn, dqpn, rkey, va, len, ours,
		ours_len; /* of what is asked for */
	struct cqe cqe;
	uint32_t head, tail, cur, psn, una, max_psn, next_psn, next_block;
	struct moved tally;
};

/* One WRITE or READ, in few steps or as ever. */
static struct left leaves(const struct rig_wr *wr, uint32_t len, bool few)
{
	struct pair *p = open_pair();
	struct requester *r = &p->a->q.req;
	struct left l = { 0 };
	struct rig_wr w = pair_remote(p, wr->op, 64, len);

	w.inl = wr->inl;
	w.signaled = wr->signaled;
	if (few) {
		check(in_few_steps(p, &w));
	} else {
		p->a->q.qp.laid_open = true; /* then it is not asked for */
		rig_post(p->a, &w);
	}
	check_eq(fake.calls, 1);
	if (w.signaled)
		l.cqe = pair_good(p->a, false);
	pair_none(p->a, false);
	l.flags = fake.ask.write | fake.ask.mapped << 1 | fake.ask.unanswered << 2 |
		  (fake.ask.npieces == 1) << 3 | (fake.ask.grant == &r->direct.grant) << 4;
	l.ask_psn = fake.ask.psn;
	l.sqpn = fake.ask.sqpn;
	l.dqpn = fake.ask.dqpn;
	l.rkey = fake.ask.rkey == w.rkey;
	l.va = fake.ask.va;
	l.len = fake.ask.len;
	l.ours = fake.piece.addr - (uintptr_t)(w.inl ? p->a->sq : p->a->mem);
	l.ours_len = fake.piece.len;
	l.head = r->head;
	l.tail = r->tail;
	l.cur = r->cur;
	l.psn = r->psn;
	l.una = r->una;
	l.max_psn = r->max_psn;
	l.next_psn = r->next_psn;
	l.next_block = r->next_block;
	l.tally = p->a->q.tally.direct;
	pair_close(p);
	return l;
}

TEST(it_leaves_what_the_general_way_leaves)
{
	static const struct {
		struct rig_wr w;
		uint32_t len;
	} all[] = {
		{ { .op = MLX5_OPCODE_RDMA_WRITE, .signaled = true }, 1 },
		{ { .op = MLX5_OPCODE_RDMA_WRITE, .signaled = true }, 8192 },
		{ { .op = MLX5_OPCODE_RDMA_WRITE }, 100 },
		{ { .op = MLX5_OPCODE_RDMA_WRITE, .signaled = true, .inl = true }, 12 },
		{ { .op = MLX5_OPCODE_RDMA_WRITE, .signaled = true, .inl = true }, 60 },
		{ { .op = MLX5_OPCODE_RDMA_READ, .signaled = true }, 8 },
		{ { .op = MLX5_OPCODE_RDMA_READ }, 4097 },
	};

	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct left few = leaves(&all[i].w, all[i].len, true);
		struct left general = leaves(&all[i].w, all[i].len, false);

		assert_memory_equal(&few, &general, sizeof(few));
	}
}

TEST(several_at_once)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	for (int i = 0; i < 4; i++)
		rig_write(p->a, &w);
	check(in_few_steps(p, &w));
	check_eq(fake.calls, 5);
	for (int i = 0; i < 5; i++)
		pair_good(p->a, false);
	pair_close(p);
}

/* By the ring, and asked for once. */
TEST(what_the_link_refuses_goes_as_it_did)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	fake.answer = EAGAIN;
	rig_post(p->a, &w);
	check_eq(fake.calls, 1);
	rig_run(&p->rig);
	pair_good(p->a, false);
	fake.answer = 0;
	rig_post(p->a, &w);
	check_eq(fake.calls, 2);
	pair_good(p->a, false);
	pair_close(p);
}

static void send(struct pair *p, struct rig_wr *w)
{
	*w = pair_send(p->a, 0, 8);
}

static void immediate(struct pair *p, struct rig_wr *w)
{
	(void)p;
	w->op = MLX5_OPCODE_RDMA_WRITE_IMM;
}

static void fenced(struct pair *p, struct rig_wr *w)
{
	(void)p;
	w->fence = true;
}

static void two_pieces(struct pair *p, struct rig_wr *w)
{
	w->nsge = 2;
	w->sge[1] = rig_sge(p->a, 64, 8);
}

static void too_long(struct pair *p, struct rig_wr *w)
{
	w->sge[0] = rig_sge(p->a, 0, 8193);
}

static void wrong_key(struct pair *p, struct rig_wr *w)
{
	(void)p;
	w->sge[0].key ^= 0x100;
}

static void paced(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->q.req.pace.kbps = 1000;
}

static void in_doubt(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->q.req.doubt = DOUBT_PEER;
}

static void outstanding(struct pair *p, struct rig_wr *w)
{
	struct rig_wr first = pair_send(p->a, 0, 8);

	(void)w;
	rig_post(p->a, &first);
}

static void in_a_series(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->q.req.direct.series.by_ring = true;
}

static void laid_open(struct pair *p, struct rig_wr *w)
{
	(void)w;
	p->a->q.qp.laid_open = true;
}

static void no_reads(struct pair *p, struct rig_wr *w)
{
	w->op = MLX5_OPCODE_RDMA_READ;
	p->a->q.qp.attr.max_rd_atomic = 0;
}

static struct mr *without_right;

static void read_into_a_key_without_right(struct pair *p, struct rig_wr *w)
{
	const struct mr_attr a = { p->a->mem, RIG_MEM, RIG_IOVA, 0 };

	check_eq(mr_create(p->a->pd, &a, &without_right), 0);
	w->op = MLX5_OPCODE_RDMA_READ;
	w->sge[0].key = without_right->ib.lkey;
}

TEST(what_is_not_as_predicted_is_not_touched)
{
	static void (*const otherwise[])(struct pair *, struct rig_wr *) = {
		send,
		immediate,
		fenced,
		two_pieces,
		too_long,
		wrong_key,
		paced,
		in_doubt,
		outstanding,
		in_a_series,
		laid_open,
		no_reads,
		read_into_a_key_without_right,
	};

	for (unsigned int i = 0; i < sizeof(otherwise) / sizeof(otherwise[0]); i++) {
		struct pair *p = open_pair();
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
		struct requester before;

		otherwise[i](p, &w);
		before = p->a->q.req;
		check(!in_few_steps(p, &w));
		check_eq(fake.calls, 0);
		assert_memory_equal(&before, &p->a->q.req, sizeof(before));
		if (without_right)
			mr_destroy(without_right);
		without_right = NULL;
		pair_close(p);
	}
}

TEST(not_before_an_exchange)
{
	struct pair *p = open_pair();
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	p->a->q.req.direct.exchanged = false;
	rig_post(p->a, &w);
	check_eq(fake.calls, 0);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_close(p);
}

RUN_TESTS(unit_test(it_leaves_what_the_general_way_leaves), unit_test(several_at_once),
	  unit_test(what_the_link_refuses_goes_as_it_did),
	  unit_test(what_is_not_as_predicted_is_not_touched), unit_test(not_before_an_exchange))
