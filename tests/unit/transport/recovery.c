// SPDX-License-Identifier: MIT
/* Selective recovery: what is lost is sent again, and hardly anything else. */
#include <limits.h>
#include "pair.h"
#include "transport/hold.h"

enum { MTU = 256, WINDOW = 32, LEN = 64 << 10, PACKETS = LEN / MTU };

static struct net_config both = {
	.max_seg = MTU, .delay = 1000, .window = WINDOW, .abilities = { DEST_REPORTS, DEST_REPORTS }
};

static struct pair *open_pair(const struct net_config *cfg, uint64_t seed)
{
	struct rig_attr attr = rig_rc;
	struct pair *p;

	attr.timeout = 10;
	p = pair_open(cfg, &attr);
	rand_init(&p->rig.net.rand, seed);
	return p;
}

/* Counted once, whatever was sent again; the other way, nothing. */
static void check_moved(const struct tally *from, const struct tally *to, uint32_t bytes)
{
	check_eq(from->sent.bytes, bytes);
	check_eq(from->sent.packets, bytes / MTU);
	check_eq(to->received.bytes, bytes);
	check_eq(to->received.packets, bytes / MTU);
	check_eq(from->received.bytes | to->sent.bytes, 0);
}

/* Drops the @n-th segment from now on. */
static void drop_next(struct pair *p, uint64_t n)
{
	p->rig.net.drop_at = p->rig.net.sent + n;
}

TEST(one_lost_packet_is_one_packet_again)
{
	for (unsigned int lost = 1; lost < 16; lost++) {
		struct pair *p = open_pair(&both, 1);
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 16 * MTU);

		drop_next(p, lost);
		rig_post(p->a, &w);
		rig_run_until(&p->rig, 20000);
		pair_good(p->a, false);
		check_eq(pair_count(p, p->b, OP_WRITE_FIRST) +
				 pair_count(p, p->b, OP_WRITE_MIDDLE) +
				 pair_count(p, p->b, OP_WRITE_LAST),
			 17);
		check_mem(p->b->mem + 0x8000, p->a->mem, 16 * MTU);
		check_moved(&p->a->q.tally, &p->b->q.tally, 16 * MTU);
		check_eq(p->rig.counters.v[COUNTER_OUT_OF_SEQUENCE], 1);
		check_eq(p->rig.counters.v[COUNTER_PACKET_SEQ_ERR], 0);
		pair_close(p);
	}
}

/* The fewest packets of a message of 128 that leave at once, but for its last ones. */
static unsigned int shortest(uint32_t window)
{
	struct net_config cfg = both;
	struct pair *p;
	struct rig_wr w;
	unsigned int least = UINT_MAX, n = 0, all = 0;

	cfg.window = window;
	cfg.slot = 100;
	cfg.queue = 1 << 20;
	p = open_pair(&cfg, 1);
	w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 128 * MTU);
	rig_post(p->a, &w);
	rig_run_until(&p->rig, 1000000); /* less than a time-out */
	pair_good(p->a, false);
	for (unsigned int i = 0; i < p->n && all < 128; i++) {
		if (p->log[i].dqpn != p->b->q.qp.qpn)
			continue;
		all++;
		n = n && p->at[i] == p->at[i - 1] ? n + 1 : 1;
		if (i + 1 < p->n && p->at[i + 1] != p->at[i] && all < 128)
			least = n < least ? n : least;
	}
	check_eq(all, 128);
	pair_close(p);
	return least;
}

TEST(a_nearly_full_window_waits_for_a_train)
{
	check(shortest(8) >= 2);
	check(shortest(23) >= 5);
	check(shortest(32) >= 8);
}

/* The peer's end turns out smaller than what is on its way, whose last packets ask nothing. */
TEST(a_full_window_without_an_ack_to_come_goes_on)
{
	struct net_config cfg = both;
	struct rig_wr w;
	struct pair *p;

	cfg.window = 128;
	p = open_pair(&cfg, 1);
	w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, LEN / 2);
	for (int i = 0; i < 4; i++) {
		rig_post(p->a, &w);
		rig_run(&p->rig);
		pair_good(p->a, false);
	}
	check(p->a->q.req.cc.window >= 128);
	w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, LEN);
	rig_post(p->a, &w);
	p->a->end.d.window = 36;
	rig_run_until(&p->rig, p->rig.net.now + 1000000);
	pair_good(p->a, false);
	pair_close(p);
}

TEST(one_lost_response_is_one_response_again)
{
	for (unsigned int lost = 2; lost < 17; lost++) {
		struct pair *p = open_pair(&both, 1);
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 16 * MTU);

		drop_next(p, lost);
		rig_post(p->a, &w);
		rig_run_until(&p->rig, 20000);
		pair_good(p->a, false);
		check_eq(p->n, 19);
		check_eq(p->log[17].op, OP_READ_REQUEST);
		check_eq(p->log[17].dma_len, MTU);
		check_eq(p->log[17].psn, lost - 2);
		check_mem(p->a->mem, p->b->mem + 0x8000, 16 * MTU);
		check_moved(&p->b->q.tally, &p->a->q.tally, 16 * MTU);
		pair_close(p);
	}
}

/* Each part that is asked for ahead is one of the READs that the peer takes at a time. A part is
 * half a window: no more than two are on their way. */
TEST(parts_of_a_read_count_against_max_rd_atomic)
{
	for (uint8_t depth = 1; depth <= 2; depth++) {
		struct pair *p = open_pair(&both, 1);
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, LEN / 2);
		unsigned int asked = 0;

		p->a->q.qp.attr.max_rd_atomic = depth;
		rig_post(p->a, &w);
		rig_run(&p->rig);
		pair_good(p->a, false);
		while (asked < p->n && p->log[asked].op == OP_READ_REQUEST)
			asked++;
		check_eq(asked, depth);
		check(pair_count(p, p->b, OP_READ_REQUEST) > depth);
		pair_close(p);
	}
}

/* A READ behind a lost SEND waits with the peer, and is not asked for again. */
TEST(a_read_that_is_held_is_not_asked_for_again)
{
	struct pair *p = open_pair(&both, 1);
	struct rig_wr write = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	struct rig_wr read = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0x1000, 4 * MTU);
	struct rig_wr add = pair_remote(p, MLX5_OPCODE_ATOMIC_FA, 0x3000, 8);

	add.swap_add = 1;
	drop_next(p, 1);
	rig_post(p->a, &write);
	rig_post(p->a, &read);
	rig_post(p->a, &add);
	rig_run_until(&p->rig, 20000);
	check_eq(pair_good(p->a, false).wqe_opcode, MLX5_OPCODE_RDMA_WRITE);
	check_eq(pair_good(p->a, false).wqe_opcode, MLX5_OPCODE_RDMA_READ);
	check_eq(pair_good(p->a, false).wqe_opcode, MLX5_OPCODE_ATOMIC_FA);
	check_eq(pair_count(p, p->b, OP_READ_REQUEST), 1);
	check_eq(pair_count(p, p->b, OP_FETCH_ADD), 1);
	check_eq(pair_count(p, p->b, OP_WRITE_ONLY), 2);
	pair_close(p);
}

/* An atomic whose answer is lost is executed once. */
TEST(an_atomic_is_executed_once)
{
	struct pair *p = open_pair(&both, 1);
	struct rig_wr add = pair_remote(p, MLX5_OPCODE_ATOMIC_FA, 0x3000, 8);
	uint64_t before, now;

	memcpy(&before, p->b->mem + 0x8000, 8);
	add.swap_add = 1;
	drop_next(p, 3);
	rig_post(p->a, &add);
	rig_post(p->a, &add);
	rig_run_until(&p->rig, 20000);
	pair_good(p->a, false);
	pair_good(p->a, false);
	check_eq(pair_count(p, p->b, OP_FETCH_ADD), 3);
	memcpy(&now, p->b->mem + 0x8000, 8);
	check_eq(now, before + 2);
	pair_close(p);
}

/* What came behind a SEND without a receive is kept, and completes in order. */
TEST(rnr_in_the_middle_keeps_the_order)
{
	struct pair *p = open_pair(&both, 1);

	for (unsigned int i = 0; i < 4; i++) {
		struct rig_wr w = pair_send(p->a, i * 0x100, 8 + i);

		rig_post(p->a, &w);
	}
	pair_receive(p->b, 0x4000, 64);
	pair_receive(p->b, 0x4100, 64);
	rig_run_until(&p->rig, 5000);
	pair_receive(p->b, 0x4200, 64);
	pair_receive(p->b, 0x4300, 64);
	rig_run(&p->rig);
	for (unsigned int i = 0; i < 4; i++) {
		pair_good(p->a, false);
		check_eq(pair_good(p->b, true).byte_cnt, 8 + i);
	}
	pair_close(p);
}

/* Runs until @ns from now, and the requester's timer is overdue before its answers are read: its
 * process had no core. */
static void late_reader(struct pair *p, uint64_t ns)
{
	rig_run_until(&p->rig, p->rig.net.now + ns);
	p->rig.net.now += 4000000;
	tqp_timer(&p->a->q, p->rig.net.now);
}

/* A WRITE of a window, the first of which has measured a round trip. */
static struct rig_wr measured(struct pair *p)
{
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, WINDOW * MTU);

	p->rig.net.now = 1;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	p->rig.net.payloads = 0;
	return w;
}

/* Packets of a WRITE of a window, of which the third is lost and the answers are read late. */
TEST(an_answer_to_the_first_sending_is_none_to_the_second)
{
	struct pair *p = open_pair(&both, 1);
	struct rig_wr w = measured(p);

	drop_next(p, 3);
	rig_post(p->a, &w);
	late_reader(p, 1500);
	check_eq(p->rig.net.payloads, WINDOW + 1);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_mem(p->b->mem + 0x8000, p->a->mem, WINDOW * MTU);
	check_eq(p->rig.net.payloads, WINDOW + 2);
	pair_close(p);
}

/* A whole burst is lost: one silence, not one for each packet. */
TEST(a_lost_burst_costs_one_silence)
{
	struct pair *p = open_pair(&both, 1);
	struct rig_wr w = measured(p);

	p->rig.net.cut = true;
	rig_post(p->a, &w);
	p->rig.net.cut = false;
	rig_run_until(&p->rig, p->rig.net.now + 3000000);
	pair_good(p->a, false);
	check_mem(p->b->mem + 0x8000, p->a->mem, WINDOW * MTU);
	pair_close(p);
}

/* Bytes as a wrong peer sends them. */
static void report(struct pair *p, uint32_t psn, const uint8_t *bytes, uint32_t len)
{
	struct seg s = { .op = OP_REPORT,
			 .pkey = 0xffff,
			 .dqpn = p->a->q.qp.qpn,
			 .psn = psn,
			 .npsn = 1,
			 .len = len,
			 .data = bytes,
			 .from = &p->a->end.d };

	tqp_input(&p->a->q, &s, p->rig.net.now);
}

TEST(a_wrong_report_is_counted_and_does_nothing)
{
	struct pair *p = open_pair(&both, 1);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 4 * MTU);
	uint8_t bits[REPORT_MAX + 8];
	unsigned int sent;

	memset(bits, 0xff, sizeof(bits));
	p->rig.net.cut = true;
	rig_post(p->a, &w);
	sent = p->n;
	report(p, 5, bits, REPORT_AETH + 1); /* never sent */
	report(p, 0x800000, bits, REPORT_AETH + 1);
	report(p, 0, bits, REPORT_AETH); /* too short, too long */
	report(p, 0, bits, 0);
	report(p, 0, bits, REPORT_MAX + 1);
	report(p, PSN_MASK, bits, 1); /* late, too */
	check_eq(p->rig.counters.v[COUNTER_PORT_RCV_ERRORS], 5);
	check_eq(p->n, sent);
	pair_none(p->a, false);
	report(p, 0, bits, REPORT_MAX); /* more bits than PSNs: those behind say nothing */
	check_eq(p->n, sent + 1);
	p->rig.net.cut = false;
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_mem(p->b->mem + 0x8000, p->a->mem, 4 * MTU);
	pair_close(p);
}

/* How many packets too many it costs, and how many were lost. */
static uint64_t extra(uint8_t op, double loss, uint64_t seed, uint64_t *lost)
{
	struct net_config cfg = both;
	struct rig_wr w;
	struct pair *p;
	uint64_t sent;

	cfg.loss = loss;
	p = open_pair(&cfg, seed);
	w = pair_remote(p, op, 0, LEN);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_mem(op == MLX5_OPCODE_RDMA_READ ? p->a->mem : p->b->mem + 0x8000,
		  op == MLX5_OPCODE_RDMA_READ ? p->b->mem + 0x8000 : p->a->mem, LEN);
	*lost += p->rig.net.lost_payloads;
	sent = p->rig.net.payloads;
	pair_close(p);
	return sent - PACKETS;
}

static void costs_little(uint8_t op, double loss)
{
	uint64_t lost = 0, more = 0;

	for (uint64_t seed = 1; seed <= 50; seed++)
		more += extra(op, loss, seed, &lost);
	print_message("opcode %u, loss %.0f %%: %lu lost, %lu packets more\n", op, loss * 100,
		      (unsigned long)lost, (unsigned long)more);
	check(lost > 0 && more * 20 <= lost * 21);
}

TEST(what_is_lost_costs_little_more_than_itself)
{
	static const double rates[] = { 0.01, 0.02, 0.05, 0.2 };

	for (int i = 0; i < 4; i++) {
		costs_little(MLX5_OPCODE_RDMA_WRITE, rates[i]);
		costs_little(MLX5_OPCODE_RDMA_READ, rates[i]);
	}
}

/* Hosts of which only one knows what the other is able to, or none does. */
TEST(every_pair_of_abilities_gets_everything_across)
{
	static const uint8_t ops[] = { MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ };
	struct net_config cfg = both;

	cfg.loss = 0.05;
	cfg.late = cfg.dup = 0.02;
	for (uint32_t able = 0; able < 4; able++)
		for (uint64_t seed = 1; seed <= 10; seed++)
			for (int i = 0; i < 2; i++) {
				struct rig_wr w;
				struct pair *p;

				cfg.abilities[0] = able & 1 ? DEST_REPORTS : 0;
				cfg.abilities[1] = able & 2 ? DEST_REPORTS : 0;
				p = open_pair(&cfg, seed);
				w = pair_remote(p, ops[i], 0, LEN / 2);
				rig_post(p->a, &w);
				rig_run(&p->rig);
				pair_good(p->a, false);
				check_mem(i ? p->a->mem : p->b->mem + 0x8000,
					  i ? p->b->mem + 0x8000 : p->a->mem, LEN / 2);
				pair_close(p);
			}
}

/* The peer's hello comes while packets are on their way. */
TEST(it_begins_in_the_middle_of_a_stream)
{
	struct net_config cfg = both;
	struct rig_wr w;
	struct pair *p;

	cfg.abilities[0] = cfg.abilities[1] = 0;
	cfg.loss = 0.02;
	p = open_pair(&cfg, 7);
	w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, LEN / 2);
	for (int i = 0; i < 4; i++)
		rig_post(p->a, &w);
	rig_run_until(&p->rig, 4000);
	p->a->end.d.abilities = p->b->end.d.abilities = DEST_REPORTS;
	rig_run(&p->rig);
	for (int i = 0; i < 4; i++)
		pair_good(p->a, false);
	check(p->a->q.req.rec);
	check_mem(p->b->mem + 0x8000, p->a->mem, LEN / 2);
	pair_close(p);
}

static uint32_t unlucky; /* a PSN of the oldest READ */
static unsigned int asked, answered;

/* Loses the first answer at that PSN, and the first request that asks for it again. */
static void lose_both(void *arg, const struct seg *s)
{
	struct pair *p = arg;
	bool here = s->psn == unlucky;
	bool asks = here && s->op == OP_READ_REQUEST && answered && !asked++;
	bool answers = here && opcode_has(s->op, WIRE_RESPONSE) && !answered++;

	if (asks || answers)
		drop_next(p, 1);
	pair_watch(p, s);
}

/* The peer's record has as many READs as may be outstanding. Those that it has executed behind one
 * whose answer is lost, all or its end, stand there, too. */
static void lose_of_the_oldest(uint32_t psns)
{
	struct rig_attr attr = rig_rc;
	struct rig_wr w;
	struct pair *p;

	attr.timeout = 10;
	attr.rd_atomic = attr.dest_rd_atomic = 16;
	p = pair_open(&both, &attr);
	p->rig.net.watch = lose_both;
	unlucky = psns - 1;
	asked = answered = 0;
	for (uint32_t i = 0; i < 15; i++) {
		w = pair_remote(p, MLX5_OPCODE_RDMA_READ, i * 0x400, i ? 8 : psns * MTU);
		rig_post(p->a, &w);
	}
	w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0x8000, LEN);
	rig_post(p->a, &w);
	check_eq(pair_count(p, p->b, OP_READ_REQUEST), 16);
	rig_run(&p->rig);
	for (int i = 0; i < 16; i++)
		pair_good(p->a, false);
	check_eq(asked, 2);
	check_mem(p->a->mem, p->b->mem + 0x8000, psns * MTU);
	check_mem(p->a->mem + 0x8000, p->b->mem + 0x8000, LEN);
	pair_close(p);
}

TEST(reads_that_are_here_count_until_the_oldest_is)
{
	lose_of_the_oldest(1);
	lose_of_the_oldest(2);
}

static struct pair *initiator; /* a is its DCI */
static uint16_t ended; /* the block whose stream has ended */

static bool is_stopped(const struct tqp *q, uint16_t block)
{
	(void)q;
	return block == ended;
}

/* The target has a new responder for the streams that are left. */
static bool spare(struct tqp *q, uint16_t block)
{
	ended = block;
	hold_forget(&initiator->b->q);
	initiator->b->q.rsp.epsn = q->req.max_psn;
	return true;
}

TEST(a_stream_that_ends_by_a_repeat_leaves_the_others_going)
{
	struct pair *p = open_pair(&both, 1);
	struct tqp_env streams = rig_env;
	struct mr_attr attr = { p->a->mem, RIG_MEM, RIG_IOVA, 0 };
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 2 * WINDOW * MTU);
	struct rig_wr other = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0x100, 8);
	struct mr *mr;
	uint16_t first;

	initiator = p;
	ended = UINT16_MAX;
	streams.spare = spare;
	streams.stopped = is_stopped;
	p->a->q.env = &streams;
	check_eq(mr_create(p->a->pd, &attr, &mr), 0);
	w.sge[0].key = mr->ib.lkey;
	drop_next(p, 1);
	first = rig_post(p->a, &w);
	rig_post(p->a, &other);
	check_eq(p->rig.net.payloads, WINDOW);
	quiesce_exit();
	check_eq(mr_destroy(mr), 0);
	quiesce_enter();
	rig_run(&p->rig);
	check_eq(pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT)
			 .wqe_counter,
		 first);
	pair_good(p->a, false);
	check_mem(p->b->mem + 0x8000, p->a->mem + 0x100, 8);
	check_eq(p->a->q.qp.state, IBV_QPS_RTS);
	pair_close(p);
}

/* One end expects a PSN in the middle of a READ: the READ is answered by a NAK, the WRITE behind it
 * by a report, and both of them go again. */
TEST(ends_that_do_not_count_alike_do_not_flood_each_other)
{
	struct pair *p = open_pair(&both, 1);
	struct rig_wr r = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 3 * MTU);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0x1000, 8);

	p->a->q.req.rtt.mean = p->a->q.req.rtt.least = 2000; /* repeats come before a try ends */
	p->b->q.rsp.epsn = psn_add(p->b->q.rsp.epsn, 1);
	rig_post(p->a, &r);
	rig_post(p->a, &w);
	rig_run_until(&p->rig, 1000000000);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, VENDOR_TRANSPORT_RETRY);
	check(p->n < PAIR_LOG);
	pair_close(p);
}

RUN_TESTS(unit_test(ends_that_do_not_count_alike_do_not_flood_each_other),
	  unit_test(reads_that_are_here_count_until_the_oldest_is),
	  unit_test(a_stream_that_ends_by_a_repeat_leaves_the_others_going),
	  unit_test(a_nearly_full_window_waits_for_a_train),
	  unit_test(a_full_window_without_an_ack_to_come_goes_on),
	  unit_test(one_lost_packet_is_one_packet_again),
	  unit_test(one_lost_response_is_one_response_again),
	  unit_test(parts_of_a_read_count_against_max_rd_atomic),
	  unit_test(a_read_that_is_held_is_not_asked_for_again),
	  unit_test(an_atomic_is_executed_once), unit_test(rnr_in_the_middle_keeps_the_order),
	  unit_test(an_answer_to_the_first_sending_is_none_to_the_second),
	  unit_test(a_lost_burst_costs_one_silence),
	  unit_test(a_wrong_report_is_counted_and_does_nothing),
	  unit_test(what_is_lost_costs_little_more_than_itself),
	  unit_test(every_pair_of_abilities_gets_everything_across),
	  unit_test(it_begins_in_the_middle_of_a_stream))
