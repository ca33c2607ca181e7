// SPDX-License-Identifier: MIT
/* UC, UD, RAW_PACKET: what arrives is whole, what is wrong is dropped, sends complete at once. */
#include "obs/explain.h"
#include "pair.h"
#include "wire/frame.h"

static const struct net_config wide = { .max_seg = 1024, .delay = 1000 };

static struct pair *open_as(enum ibv_qp_type type)
{
	struct rig_attr attr = rig_rc;

	attr.type = type;
	return pair_open(type == IBV_QPT_UD ? &wide : &pair_lossy, &attr);
}

static struct rig_wr datagram(const struct pair *p, uint32_t len)
{
	struct rig_wr w = pair_send(p->a, 0, len);

	w.dqpn = p->b->q.qp.qpn;
	w.qkey = 0x11111111;
	return w;
}

TEST(ud_leaves_40_bytes_for_the_grh)
{
	struct pair *p = open_as(IBV_QPT_UD);
	struct rig_wr w = datagram(p, 500);
	struct cqe c;

	pair_receive(p->b, 0x4000, 540);
	rig_post(p->a, &w);
	pair_good(p->a, false); /* before anything has arrived */
	rig_run(&p->rig);
	c = pair_good(p->b, true);
	check_eq(c.byte_cnt, 540);
	check_eq(c.src_qp, p->a->q.qp.qpn);
	check(c.grh);
	check_mem(p->b->mem + 0x4028, p->a->mem, 500);
	pair_close(p);
}

TEST(ud_wrong_qkey_is_dropped)
{
	struct pair *p = open_as(IBV_QPT_UD);
	struct rig_wr w = datagram(p, 8);

	w.qkey++;
	pair_receive(p->b, 0x4000, 100);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_none(p->b, true);
	pair_close(p);
}

static void look_for(const char *said)
{
	char text[EXPLAIN_TEXT];

	check_eq(explain_last(text, sizeof(text)), 0);
	if (!strstr(text, said))
		print_message("%s\n", text);
	check(strstr(text, said));
}

/* The devices of one host need not have one MTU. @said is the last that either side says. */
static void above_the_mtu(const struct net_config *cfg, const char *said)
{
	struct rig_attr attr = rig_rc;
	struct rig_wr w;
	struct pair *p;

	attr.type = IBV_QPT_UD;
	p = pair_open(cfg, &attr);
	p->b->q.req.mtu = 256;
	w = datagram(p, 300);
	pair_receive(p->b, 0x4000, 1000);
	rig_post(p->a, &w);
	pair_good(p->a, false);
	rig_run(&p->rig);
	look_for(said);
	pair_none(p->b, true);
	pair_close(p);
}

TEST(ud_above_the_receivers_mtu_is_dropped_and_both_sides_say_so)
{
	above_the_mtu(&wide, "SEND from QP 0x100 dropped by UD QP 0x101 (1 so far): its 300 B "
			     "exceed this port's MTU of 256 B; send less");
	above_the_mtu(&pair_host, "message on UD QP 0x100 dropped by QP 0x101 (1 so far there): "
				  "it exceeds that port's MTU of 256 B; send less");
}

TEST(ud_privileged_qkey_means_the_qps_own)
{
	struct pair *p = open_as(IBV_QPT_UD);
	struct rig_wr w = datagram(p, 8);

	w.qkey = 0x80000001;
	rig_post(p->a, &w);
	check_eq(p->log[0].qkey, 0x11111111);
	pair_close(p);
}

TEST(ud_without_receive_is_dropped)
{
	struct pair *p = open_as(IBV_QPT_UD);
	struct rig_wr w = datagram(p, 8);

	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_eq(p->rig.counters.v[COUNTER_OUT_OF_BUFFER], 1);
	check_eq(p->b->q.qp.state, IBV_QPS_RTS);
	pair_close(p);
}

TEST(ud_receive_without_room_for_the_grh_fails)
{
	struct pair *p = open_as(IBV_QPT_UD);
	struct rig_wr w = datagram(p, 8);

	pair_receive(p->b, 0x4000, 47);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_bad(p->b, true, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, VENDOR_LOC_LEN);
	check_eq(p->b->q.qp.state, IBV_QPS_ERR);
	pair_close(p);
}

TEST(uc_tells_what_it_has_executed_behind_the_last_byte)
{
	struct pair *p = open_as(IBV_QPT_UC);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 3000);
	uint32_t executed = 0;

	p->b->q.executed = &executed;
	rig_post(p->a, &w);
	check_eq(executed, 0);
	rig_run(&p->rig);
	check_mem(p->b->mem + 0x8000, p->a->mem, 3000);
	check_eq(executed, p->a->q.req.psn + 1);
	pair_good(p->a, false);
	pair_close(p);
}

TEST(ud_over_the_mtu_stops_the_sq_alone)
{
	struct pair *p = open_as(IBV_QPT_UD);
	struct rig_wr w = datagram(p, 1025);

	rig_write(p->a, &w);
	w = datagram(p, 1024);
	rig_post(p->a, &w);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, VENDOR_LOC_LEN);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, VENDOR_SEND_FLUSH);
	check_eq(p->a->q.qp.state, IBV_QPS_SQE);
	rig_move(p->a, IBV_QPS_RTS);
	pair_receive(p->b, 0x4000, 2000);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_good(p->b, true);
	pair_close(p);
}

TEST(ud_knows_only_sends)
{
	struct pair *p = open_as(IBV_QPT_UD);
	struct rig_wr w = datagram(p, 8);

	w.op = MLX5_OPCODE_RDMA_WRITE;
	rig_post(p->a, &w);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, VENDOR_LOC_QP_OP);
	pair_close(p);
}

TEST(ud_to_nowhere_completes)
{
	struct pair *p = open_as(IBV_QPT_UD);
	struct rig_wr w = datagram(p, 8);

	w.dqpn = 0x999;
	rig_post(p->a, &w);
	pair_good(p->a, false);
	pair_close(p);
}

/* A destination that has no room, and one asked for later. */
static struct {
	unsigned int resolved, held;
	int answer;
	struct dest d;
} slow;

static int slow_send(struct dest *d, const struct seg *s, struct waiter *w)
{
	(void)d;
	(void)s;
	(void)w;
	return slow.answer;
}

static void slow_cancel(struct dest *d, struct waiter *w)
{
	(void)d;
	(void)w;
}

static void slow_put(struct dest *d)
{
	(void)d;
	slow.held--;
}

static int slow_resolve(struct tqp *q, const struct av *av, uint32_t dqpn, struct dest **out)
{
	(void)q;
	(void)av;
	(void)dqpn;
	slow.resolved++;
	slow.held++;
	*out = &slow.d;
	return 0;
}

/* The first datagram waits. */
static struct pair *open_slow(void)
{
	static const struct link_ops ops = {
		.name = "slow", .send = slow_send, .cancel = slow_cancel, .put = slow_put
	};
	static struct tqp_env env;
	struct pair *p = open_as(IBV_QPT_UD);
	struct rig_wr w = datagram(p, 8);

	slow.resolved = slow.held = 0;
	slow.answer = EAGAIN;
	slow.d = (struct dest){ .ops = &ops, .max_seg = 1024 };
	env = rig_env;
	env.resolve = slow_resolve;
	p->a->q.env = &env;
	rig_post(p->a, &w);
	pair_none(p->a, false);
	check_eq(slow.resolved, 1);
	return p;
}

static void next_is_resolved_anew(struct pair *p)
{
	struct rig_wr w = datagram(p, 8);

	check_eq(slow.held, 0);
	rig_post(p->a, &w);
	pair_good(p->a, false);
	check_eq(slow.resolved, 2);
	check_eq(slow.held, 0);
	pair_close(p);
}

/* Where a process has died, the next answer to who is there is a wait again. */
TEST(ud_hears_of_whom_it_has_waited_for)
{
	struct pair *p = open_slow();

	tqp_resume(&p->a->q, 1); /* no room again */
	pair_none(p->a, false);
	slow.answer = ENETUNREACH;
	tqp_resume(&p->a->q, 2);
	pair_good(p->a, false);
	check_eq(slow.resolved, 1);
	next_is_resolved_anew(p);
}

TEST(ud_forgets_whom_a_failed_send_has_waited_for)
{
	struct pair *p = open_slow();

	slow.answer = EFAULT;
	tqp_resume(&p->a->q, 1);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
	check_eq(slow.held, 0);
	rig_move(p->a, IBV_QPS_RTS);
	slow.answer = 0;
	next_is_resolved_anew(p);
}

#define SECOND UINT64_C(1000000000)

/* It waits for a process of this host, which has been reached before, and which is stopped. */
static struct pair *open_stopped(uint64_t now)
{
	struct pair *p = open_slow();

	tqp_resume(&p->a->q, now); /* no room again, and now it is known who has none */
	slow.d.same_host = true;
	slow.d.process = 5;
	tqp_resume(&p->a->q, now);
	pair_none(p->a, false);
	return p;
}

TEST(ud_waits_5_seconds_for_a_process_without_room)
{
	struct pair *p = open_stopped(7 * SECOND);
	struct tqp *q = &p->a->q;
	struct rig_wr w = datagram(p, 8);

	check_eq(q->deadline, 12 * SECOND);
	tqp_timer(q, 12 * SECOND - 1);
	pair_none(p->a, false);
	tqp_timer(q, 12 * SECOND);
	pair_good(p->a, false);
	p->rig.net.now = 12 * SECOND;
	rig_post(p->a, &w); /* lost at once */
	pair_good(p->a, false);
	check_eq(slow.held, 0);
	slow.d.process = 6; /* another one is waited for */
	rig_post(p->a, &w);
	pair_none(p->a, false);
	slow.answer = 0;
	tqp_resume(q, 12 * SECOND);
	pair_good(p->a, false);
	check_eq(slow.held, 0);
	pair_close(p);
}

TEST(ud_waits_again_for_a_process_that_takes_something)
{
	struct pair *p = open_stopped(7 * SECOND);
	struct rig_wr w = datagram(p, 8);

	tqp_timer(&p->a->q, 12 * SECOND);
	pair_good(p->a, false);
	p->rig.net.now = 12 * SECOND;
	slow.answer = 0;
	rig_post(p->a, &w);
	pair_good(p->a, false);
	slow.answer = EAGAIN;
	rig_post(p->a, &w);
	pair_none(p->a, false);
	tqp_timer(&p->a->q, 17 * SECOND);
	pair_good(p->a, false);
	check_eq(slow.held, 0);
	pair_close(p);
}

/* It may be slow, but not this host's fault. */
TEST(ud_waits_for_a_network_as_long_as_it_takes)
{
	struct pair *p = open_slow();

	tqp_resume(&p->a->q, 7 * SECOND);
	tqp_timer(&p->a->q, 100 * SECOND);
	pair_none(p->a, false);
	slow.answer = 0;
	tqp_resume(&p->a->q, 100 * SECOND);
	pair_good(p->a, false);
	pair_close(p);
}

/* UC: a message of several segments, of which the last finds no room, is lost; so is the next. */
TEST(uc_waits_5_seconds_for_a_process_without_room)
{
	struct rig_attr attr = rig_rc;
	struct link_ops ops, *before;
	struct rig_wr w;
	struct pair *p;

	attr.type = IBV_QPT_UC;
	p = pair_open(&pair_host, &attr);
	before = (struct link_ops *)p->a->end.d.ops;
	ops = *before;
	ops.send = slow_send;
	ops.cancel = slow_cancel;
	w = pair_send(p->a, 0, 8000);
	p->a->end.d.ops = &ops;
	p->a->end.d.process = 5;
	slow.answer = EAGAIN;
	p->rig.net.now = 7 * SECOND;
	rig_post(p->a, &w);
	pair_none(p->a, false);
	check_eq(p->a->q.deadline, 12 * SECOND);
	tqp_timer(&p->a->q, 12 * SECOND);
	pair_good(p->a, false);
	rig_post(p->a, &w);
	pair_good(p->a, false);
	p->a->end.d.ops = before;
	pair_receive(p->b, 0x4000, 8000);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_good(p->b, true);
	check_eq(p->a->q.req.late.process, 0);
	pair_close(p);
}

TEST(ud_own_multicast_is_blocked_on_request)
{
	for (int block = 0; block < 2; block++) {
		struct pair *p = open_as(IBV_QPT_UD);
		struct seg s = { .op = SVC_UD | OP_SEND_ONLY,
				 .flags = SEG_MCAST | SEG_SQPN,
				 .pkey = 0xffff,
				 .dqpn = 0xffffff,
				 .sqpn = p->b->q.qp.qpn,
				 .qkey = 0x11111111,
				 .npsn = 1,
				 .from = &p->b->end.d };
		struct cqe c;

		p->b->q.qp.create_flags = block ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
		pair_receive(p->b, 0x4000, 40);
		tqp_input(&p->b->q, &s, 0);
		check_eq(rig_poll(p->b, true, &c), !block);
		pair_close(p);
	}
}

TEST(raw_frames_that_are_kept_end_in_time_after_a_failed_send)
{
	struct pair *p = open_as(IBV_QPT_RAW_PACKET);
	const uint8_t bytes[FRAME_MIN] = { 0 };
	struct seg s = { .op = FRAME_OP, .npsn = 1, .data = bytes, .len = sizeof(bytes) };
	struct rig_wr w = pair_send(p->b, 0, sizeof(bytes));

	tqp_input(&p->b->q, &s, 0);
	w.sge[0].key ^= 1;
	rig_post(p->b, &w);
	pair_bad(p->b, false, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, VENDOR_LOC_PROT);
	rig_move(p->b, IBV_QPS_RTS);
	rig_run_until(&p->rig, 2000000000);
	check_eq(p->rig.counters.v[COUNTER_OUT_OF_BUFFER], 1);
	pair_receive(p->b, 0x4000, 100);
	pair_none(p->b, true);
	pair_close(p);
}

TEST(uc_message_with_a_gap_is_dropped_whole)
{
	struct pair *p = open_as(IBV_QPT_UC);
	struct rig_wr w = pair_send(p->a, 0, 1000);

	pair_receive(p->b, 0x4000, 1000);
	p->rig.net.drop_at = 2;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_none(p->b, true);
	w.sge[0] = rig_sge(p->a, 0x2000, 1000);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	check_eq(pair_good(p->b, true).wqe_counter, 0); /* the same receive */
	check_mem(p->b->mem + 0x4000, p->a->mem + 0x2000, 1000);
	pair_close(p);
}

TEST(uc_first_lost_next_message_arrives)
{
	struct pair *p = open_as(IBV_QPT_UC);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE_IMM, 0, 500);

	pair_receive(p->b, 0x4000, 8);
	p->rig.net.drop_at = 1;
	rig_post(p->a, &w);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	check_eq(pair_good(p->b, true).byte_cnt, 500);
	pair_none(p->b, true);
	pair_close(p);
}

TEST(uc_write_after_a_broken_send_completes_no_receive)
{
	struct pair *p = open_as(IBV_QPT_UC);
	struct rig_wr send = pair_send(p->a, 0, 500);
	struct rig_wr write = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	pair_receive(p->b, 0x4000, 500);
	p->rig.net.drop_at = 2;
	rig_post(p->a, &send);
	rig_post(p->a, &write);
	rig_run(&p->rig);
	pair_none(p->b, true);
	pair_close(p);
}

TEST(uc_write_without_right_is_dropped_in_silence)
{
	struct pair *p = open_as(IBV_QPT_UC);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	uint8_t before[8];

	memcpy(before, p->b->mem + 0x8000, 8);
	w.rkey ^= 1;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check_eq(p->b->q.qp.state, IBV_QPS_RTS);
	check_mem(before, p->b->mem + 0x8000, 8);
	pair_no_event(p->b);
	pair_close(p);
}

TEST(uc_knows_no_reads)
{
	struct pair *p = open_as(IBV_QPT_UC);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 8);

	rig_post(p->a, &w);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, VENDOR_LOC_QP_OP);
	check_eq(p->a->q.qp.state, IBV_QPS_SQE);
	pair_close(p);
}

TEST(uc_doubled_packets_deliver_once)
{
	struct rig_attr attr = rig_rc;
	struct net_config twice = pair_lossy;
	struct pair *p;

	attr.type = IBV_QPT_UC;
	twice.dup = 1;
	p = pair_open(&twice, &attr);
	for (uint32_t len = 8; len <= 1000; len += 992) {
		struct rig_wr w = pair_send(p->a, 0, len);

		pair_receive(p->b, 0x4000, 1000);
		pair_receive(p->b, 0x5000, 1000);
		rig_post(p->a, &w);
		rig_run(&p->rig);
		pair_good(p->a, false);
		check_eq(pair_good(p->b, true).byte_cnt, len);
		check_mem(p->b->mem + (len == 8 ? 0x4000 : 0x5000), p->a->mem, len);
		pair_none(p->b, true);
	}
	pair_close(p);
}

/* A PSN that far behind is no late packet, but a sender that has begun anew. */
TEST(uc_only_what_was_overtaken_is_late)
{
	struct pair *p = open_as(IBV_QPT_UC);
	struct seg s = { .op = SVC_UC | OP_SEND_ONLY,
			 .pkey = 0xffff,
			 .dqpn = p->b->q.qp.qpn,
			 .npsn = 1,
			 .from = &p->b->end.d };
	uint32_t first = p->b->q.rsp.epsn;

	for (int i = 0; i < 4; i++)
		pair_receive(p->b, 0x4000, 40);
	s.psn = psn_add(first, 3); /* three are lost */
	tqp_input(&p->b->q, &s, 0);
	pair_good(p->b, true);
	s.psn = first; /* or were overtaken */
	tqp_input(&p->b->q, &s, 0);
	pair_none(p->b, true);
	s.psn = psn_add(first, 4);
	tqp_input(&p->b->q, &s, 0);
	pair_good(p->b, true);
	s.psn = psn_add(first, (uint32_t)-5000 & PSN_MASK);
	tqp_input(&p->b->q, &s, 0);
	pair_good(p->b, true);
	pair_close(p);
}

RUN_TESTS(unit_test(ud_leaves_40_bytes_for_the_grh), unit_test(ud_wrong_qkey_is_dropped),
	  unit_test(ud_above_the_receivers_mtu_is_dropped_and_both_sides_say_so),
	  unit_test(ud_privileged_qkey_means_the_qps_own), unit_test(ud_without_receive_is_dropped),
	  unit_test(ud_receive_without_room_for_the_grh_fails),
	  unit_test(uc_tells_what_it_has_executed_behind_the_last_byte),
	  unit_test(ud_over_the_mtu_stops_the_sq_alone), unit_test(ud_knows_only_sends),
	  unit_test(ud_to_nowhere_completes), unit_test(ud_hears_of_whom_it_has_waited_for),
	  unit_test(ud_forgets_whom_a_failed_send_has_waited_for),
	  unit_test(ud_waits_5_seconds_for_a_process_without_room),
	  unit_test(ud_waits_again_for_a_process_that_takes_something),
	  unit_test(ud_waits_for_a_network_as_long_as_it_takes),
	  unit_test(uc_waits_5_seconds_for_a_process_without_room),
	  unit_test(ud_own_multicast_is_blocked_on_request),
	  unit_test(raw_frames_that_are_kept_end_in_time_after_a_failed_send),
	  unit_test(uc_message_with_a_gap_is_dropped_whole),
	  unit_test(uc_first_lost_next_message_arrives),
	  unit_test(uc_write_after_a_broken_send_completes_no_receive),
	  unit_test(uc_write_without_right_is_dropped_in_silence), unit_test(uc_knows_no_reads),
	  unit_test(uc_doubled_packets_deliver_once), unit_test(uc_only_what_was_overtaken_is_late))
