// SPDX-License-Identifier: MIT
/* Timers and retry counts, exact under the virtual clock. */
#include "obs/explain.h"
#include "pair.h"
#include "transport/pace.h"

#define TIMEOUT 1048576UL /* 4.096 us * 2^8 */

/* Posts one WRITE and returns when it failed. */
static uint64_t fails_at(struct pair *p, uint8_t syndrome, uint8_t vendor)
{
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	rig_post(p->a, &w);
	rig_run(&p->rig);
	check_ne(pair_bad(p->a, false, syndrome, vendor).reason, 0);
	check_eq(p->a->q.qp.state, IBV_QPS_ERR);
	return p->rig.net.now;
}

/* The tries take 1, 2, 4, 4, … times the timeout. */
TEST(timeout_times_retry_count)
{
	uint64_t all = TIMEOUT;

	for (uint8_t retries = 0; retries < 8; retries++) {
		struct rig_attr attr = rig_rc;

		attr.retry_cnt = retries;
		struct pair *p = pair_open(&pair_lossy, &attr);

		p->rig.net.cut = true;
		check_eq(fails_at(p, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR,
				  VENDOR_TRANSPORT_RETRY),
			 all);
		check_eq(pair_count(p, p->b, OP_WRITE_ONLY), retries + 1);
		pair_close(p);
		all += TIMEOUT * (retries ? 4 : 2);
	}
}

/* Silence that this host's own kernel has made is not the peer's. */
TEST(what_the_kernel_refused_to_send_is_not_blamed_on_the_peer)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	char text[EXPLAIN_TEXT];

	p->rig.net.cut = true;
	p->a->end.d.refused = EMSGSIZE;
	fails_at(p, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, VENDOR_TRANSPORT_RETRY);
	check_eq(explain_last(text, sizeof(text)), 0);
	check(strstr(text, "the kernel of this host refused 0 packets (Message too long)"));
	check(strstr(text, "lower path_mtu"));
	check(!strstr(text, "is the peer alive"));
	pair_close(p);
}

/* The rate lets a packet out every 12 ms, the timeout is 1 ms: the tries count what the peer leaves
 * unanswered, not what has yet to leave. */
TEST(a_slow_rate_uses_up_no_tries)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 16 * 1024);

	pace_set(&p->a->q, 200, 0);
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_good(p->a, false);
	check(p->rig.net.now > 63 * 12 * UINT64_C(1000000));
	check_eq(pair_count(p, p->b, OP_WRITE_MIDDLE), 62);
	pair_close(p);
}

TEST(timeout_0_waits_for_ever)
{
	struct rig_attr attr = rig_rc;

	attr.timeout = 0;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	p->rig.net.cut = true;
	rig_post(p->a, &w);
	check_eq(p->a->q.deadline, TQP_NEVER);
	pair_none(p->a, false);
	pair_close(p);
}

TEST(one_host_nobody_there_takes_the_same_time)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);

	p->a->end.refuse = ENETUNREACH;
	check_eq(fails_at(p, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, VENDOR_TRANSPORT_RETRY),
		 8 * TIMEOUT);
	pair_close(p);
}

/* RESET, INIT, ERR: hardware is silent; the peer of the same host says so, and the time is the same
 * but for the way there and back. */
TEST(one_host_a_silent_state_takes_the_same_time)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR };

	for (int i = 0; i < 3; i++) {
		struct pair *p = pair_open(&pair_host, &rig_rc);

		rig_move(p->b, IBV_QPS_RESET);
		p->b->q.qp.state = states[i];
		check_eq(fails_at(p, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR,
				  VENDOR_TRANSPORT_RETRY),
			 8 * (TIMEOUT + 200));
		pair_close(p);
	}
}

/* As on a wire, where the peer's answers are taken for old ones and the timer alone counts: its
 * rq_psn is behind, ahead, and for a READ, too. */
TEST(one_host_ends_that_do_not_count_alike_take_the_same_time)
{
	static const struct {
		uint8_t op;
		int32_t behind; /* the responder counts from so far behind */
	} rows[] = {
		{ MLX5_OPCODE_RDMA_WRITE, 5 },
		{ MLX5_OPCODE_RDMA_WRITE, -1000 },
		{ MLX5_OPCODE_RDMA_READ, 5 },
		{ MLX5_OPCODE_RDMA_READ, -1000 },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *p = pair_open(&pair_host, &rig_rc);
		struct rig_wr w = pair_remote(p, rows[i].op, 0, 8);
		char text[EXPLAIN_TEXT];
		uint64_t took;

		p->b->q.rsp.epsn = psn_add(p->b->q.rsp.epsn, (uint32_t)-rows[i].behind & PSN_MASK);
		rig_post(p->a, &w);
		rig_run(&p->rig);
		check_ne(pair_bad(p->a, false, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR,
				  VENDOR_TRANSPORT_RETRY)
				 .reason,
			 0);
		took = p->rig.net.now;
		check(took >= 8 * TIMEOUT && took <= 8 * (TIMEOUT + 200));
		check_eq(explain_last(text, sizeof(text)), 0);
		check(!!strstr(text, "answers PSNs that were not sent") ==
		      (rows[i].op == MLX5_OPCODE_RDMA_WRITE || rows[i].behind > 0));
		pair_close(p);
	}
}

/* The doubt ends with the first answer: after it no timer runs. */
TEST(one_host_a_peer_that_was_late_is_not_timed_any_more)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	p->b->q.qp.state = IBV_QPS_INIT;
	rig_post(p->a, &w);
	rig_run_until(&p->rig, p->rig.net.now + TIMEOUT / 2);
	p->b->q.qp.state = IBV_QPS_RTS;
	rig_run(&p->rig);
	pair_good(p->a, false);
	p->rig.net.cut = true; /* the next segment is taken, and not answered yet */
	rig_post(p->a, &w);
	check_eq(p->a->q.req.timer_at, TQP_NEVER);
	pair_close(p);
}

TEST(one_host_with_timeout_0_the_next_post_reaches_a_peer_that_was_late)
{
	struct rig_attr attr = rig_rc;

	attr.timeout = 0;
	struct pair *p = pair_open(&pair_host, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	p->b->q.qp.state = IBV_QPS_INIT;
	for (int i = 0; i < 3; i++) { /* it is still not there */
		rig_post(p->a, &w);
		rig_run(&p->rig);
		check_eq(p->a->q.deadline, TQP_NEVER);
		pair_none(p->a, false);
	}
	p->b->q.qp.state = IBV_QPS_RTS;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	for (int i = 0; i < 4; i++)
		pair_good(p->a, false);
	pair_close(p);
}

/* It has turned the request away, and tells when that may come; what resets it does not make it
 * forget that. */
TEST(one_host_with_timeout_0_a_peer_that_becomes_ready_is_reached)
{
	struct rig_attr attr = rig_rc;

	for (int reset = 0; reset < 2; reset++) {
		attr.timeout = 0;
		struct pair *p = pair_open(&pair_host, &attr);
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

		rig_move(p->b, IBV_QPS_RESET);
		rig_post(p->a, &w);
		rig_run(&p->rig);
		check_eq(p->a->q.deadline, TQP_NEVER);
		pair_none(p->a, false);
		if (reset)
			rig_move(p->b, IBV_QPS_RESET);
		rig_connect(p->b, &attr, p->a->q.qp.qpn);
		rig_run(&p->rig);
		pair_good(p->a, false);
		pair_close(p);
	}
}

/* The ACK of what came before was delayed, and comes after the word that nobody took the rest:
 * the rest is sent again all the same, by the timer, long before the watchdog looks. */
TEST(one_host_a_late_ack_does_not_undo_a_loss)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);
	struct seg s = { .op = OP_ACKNOWLEDGE,
			 .flags = SEG_SQPN,
			 .pkey = 0xffff,
			 .dqpn = p->a->q.qp.qpn,
			 .sqpn = p->b->q.qp.qpn,
			 .npsn = 1,
			 .from = &p->a->end.d };

	p->rig.net.cut = true;
	rig_post(p->a, &w);
	rig_post(p->a, &w);
	check_eq(p->n, 2);
	p->rig.net.cut = false;
	s.psn = p->log[1].psn;
	s.syndrome = SYN_NO_RESPONDER;
	tqp_input(&p->a->q, &s, p->rig.net.now);
	s.psn = p->log[0].psn;
	s.syndrome = AETH_ACK | AETH_UNLIMITED;
	tqp_input(&p->a->q, &s, p->rig.net.now);
	pair_good(p->a, false);
	p->b->q.rsp.epsn = p->log[1].psn; /* as if it had had the first */
	rig_run_until(&p->rig, 2 * TIMEOUT);
	pair_good(p->a, false);
	check_eq(pair_count(p, p->b, OP_WRITE_ONLY), 3);
	pair_close(p);
}

TEST(one_host_arms_no_timer_while_segments_are_taken)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	rig_post(p->a, &w);
	check_eq(p->a->q.deadline, TQP_NEVER);
	pair_close(p);
}

TEST(a_peer_that_comes_late_is_reached)
{
	struct pair *p = pair_open(&pair_host, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	p->b->q.qp.state = IBV_QPS_INIT;
	rig_post(p->a, &w);
	rig_run_until(&p->rig, TIMEOUT / 2);
	p->b->q.qp.state = IBV_QPS_RTS;
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_close(p);
}

TEST(progress_gives_all_retries_back)
{
	struct rig_attr attr = rig_rc;

	attr.retry_cnt = 1;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 8);

	for (int i = 0; i < 5; i++) {
		p->rig.net.drop_at = p->rig.net.sent + 1;
		rig_post(p->a, &w);
		rig_run(&p->rig);
		pair_good(p->a, false);
	}
	pair_close(p);
}

TEST(rnr_retries_are_counted)
{
	for (uint8_t retries = 0; retries < 4; retries++) {
		struct rig_attr attr = rig_rc;

		attr.rnr_retry = retries;
		struct pair *p = pair_open(&pair_lossy, &attr);
		struct rig_wr w = pair_send(p->a, 0, 8);

		rig_post(p->a, &w);
		rig_run(&p->rig);
		pair_bad(p->a, false, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR, VENDOR_RNR_RETRY);
		check_eq(pair_count(p, p->b, OP_SEND_ONLY), retries + 1);
		check_eq(p->rig.net.now, retries * (aeth_rnr_ns(1) + 2000) + 2000);
		pair_close(p);
	}
}

TEST(rnr_retry_7_never_gives_up)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_send(p->a, 0, 8);

	rig_post(p->a, &w);
	rig_run_until(&p->rig, 100 * aeth_rnr_ns(1));
	pair_none(p->a, false);
	check(pair_count(p, p->b, OP_SEND_ONLY) > 50);
	pair_receive(p->b, 0x4000, 8);
	rig_run(&p->rig);
	pair_good(p->a, false);
	pair_good(p->b, true);
	pair_close(p);
}

TEST(the_rnr_timer_is_waited_for)
{
	struct rig_attr attr = rig_rc;

	attr.min_rnr_timer = 12; /* 0.64 ms */
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_send(p->a, 0, 8);

	rig_post(p->a, &w);
	rig_run_until(&p->rig, 3000);
	pair_receive(p->b, 0x4000, 8);
	rig_run(&p->rig);
	check_eq(p->at[2], 2000 + aeth_rnr_ns(12));
	pair_close(p);
}

TEST(one_host_a_posted_receive_ends_the_rnr_wait)
{
	struct rig_attr attr = rig_rc;

	attr.min_rnr_timer = 0; /* 655 ms */
	struct pair *p = pair_open(&pair_host, &attr);
	struct rig_wr w = pair_send(p->a, 0, 8);

	rig_post(p->a, &w);
	rig_run_until(&p->rig, 3000);
	check(p->b->q.rnr_waiting);
	pair_receive(p->b, 0x4000, 8);
	check(!p->b->q.rnr_waiting);
	rig_run_until(&p->rig, 4000);
	pair_good(p->a, false);
	pair_good(p->b, true);
	pair_close(p);
}

TEST(a_lost_packet_is_sent_again_at_once_after_the_nak)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0, 1000);

	p->rig.net.drop_at = 2;
	rig_post(p->a, &w);
	rig_run_until(&p->rig, 10000);
	pair_good(p->a, false);
	check_eq(p->rig.counters.v[COUNTER_OUT_OF_SEQUENCE], 1);
	check_eq(p->rig.counters.v[COUNTER_PACKET_SEQ_ERR], 1);
	check_eq(p->rig.counters.v[COUNTER_LOCAL_ACK_TIMEOUT_ERR], 0);
	check_mem(p->b->mem + 0x8000, p->a->mem, 1000);
	pair_close(p);
}

/* The first of four response packets is lost: asked again from there, once. */
TEST(a_lost_read_response_is_asked_for_again)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 1000);

	p->rig.net.drop_at = 2;
	rig_post(p->a, &w);
	rig_run_until(&p->rig, 10000);
	pair_good(p->a, false);
	check_eq(pair_count(p, p->b, OP_READ_REQUEST), 2);
	check_mem(p->a->mem, p->b->mem + 0x8000, 1000);
	pair_close(p);
}

/* Any other is lost: what came before it is not asked for again. */
TEST(a_read_goes_on_where_its_response_broke_off)
{
	for (unsigned int lost = 1; lost < 4; lost++) {
		struct pair *p = pair_open(&pair_lossy, &rig_rc);
		struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 1000);
		uint64_t timeout = aeth_timeout_ns(rig_rc.timeout);

		p->rig.net.drop_at = 2 + lost;
		rig_post(p->a, &w);
		rig_run_until(&p->rig, 2 * timeout);
		pair_good(p->a, false);
		check_eq(pair_count(p, p->b, OP_READ_REQUEST), 2);
		check_eq(p->log[5].psn, psn_add(p->log[0].psn, lost));
		check_eq(p->log[5].va, p->log[0].va + lost * 256);
		check_eq(p->log[5].dma_len, 1000 - lost * 256);
		check_mem(p->a->mem, p->b->mem + 0x8000, 1000);
		pair_close(p);
	}
}

TEST(an_ack_behind_a_read_says_its_response_was_lost)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct rig_wr read = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 8);
	struct rig_wr write = pair_remote(p, MLX5_OPCODE_RDMA_WRITE, 0x100, 8);

	p->rig.net.drop_at = 3;
	rig_post(p->a, &read);
	rig_post(p->a, &write);
	rig_run_until(&p->rig, 10000);
	check_eq(pair_good(p->a, false).wqe_opcode, MLX5_OPCODE_RDMA_READ);
	check_eq(pair_good(p->a, false).wqe_opcode, MLX5_OPCODE_RDMA_WRITE);
	check_eq(p->rig.counters.v[COUNTER_IMPLIED_NAK_SEQ_ERR], 1);
	pair_close(p);
}

/* The RNR NAK of a SEND behind it says so, too, and is no refusal of the READ. */
static void rnr_behind_a_read(const struct net_config *cfg, uint32_t len, uint8_t tries)
{
	struct rig_attr attr = rig_rc;

	attr.rnr_retry = 0;
	attr.retry_cnt = tries;
	struct pair *p = pair_open(cfg, &attr);
	struct rig_wr read = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, len);
	struct rig_wr send = pair_send(p->a, 0x1000, 8);

	p->rig.net.drop_at = 3; /* on one host nothing is */
	rig_post(p->a, &read);
	rig_post(p->a, &send);
	rig_run_until(&p->rig, 10000); /* less than a time-out */
	check_eq(pair_good(p->a, false).wqe_opcode, MLX5_OPCODE_RDMA_READ);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR, VENDOR_RNR_RETRY);
	check_mem(p->a->mem, p->b->mem + 0x8000, len);
	check_eq(pair_count(p, p->b, OP_READ_REQUEST), 2);
	pair_close(p);
}

TEST(an_rnr_nak_behind_a_read_says_its_response_was_lost)
{
	static const struct net_config reports = { .max_seg = 256,
						   .delay = 1000,
						   .window = 32,
						   .abilities = { DEST_REPORTS, DEST_REPORTS } };

	rnr_behind_a_read(&pair_lossy, 200, 1);
	rnr_behind_a_read(&reports, 200, 0);
}

/* Its response cannot be fetched, so it is asked for again while the RNR NAK is on its way. */
TEST(one_host_an_rnr_nak_behind_a_read_waits_for_its_response)
{
	struct net_config cfg = pair_host;

	cfg.cannot_fetch = true;
	rnr_behind_a_read(&cfg, 1000, 0);
}

RUN_TESTS(unit_test(timeout_times_retry_count), unit_test(a_slow_rate_uses_up_no_tries),
	  unit_test(timeout_0_waits_for_ever),
	  unit_test(what_the_kernel_refused_to_send_is_not_blamed_on_the_peer),
	  unit_test(one_host_nobody_there_takes_the_same_time),
	  unit_test(one_host_a_silent_state_takes_the_same_time),
	  unit_test(one_host_ends_that_do_not_count_alike_take_the_same_time),
	  unit_test(one_host_a_peer_that_was_late_is_not_timed_any_more),
	  unit_test(one_host_with_timeout_0_the_next_post_reaches_a_peer_that_was_late),
	  unit_test(one_host_with_timeout_0_a_peer_that_becomes_ready_is_reached),
	  unit_test(one_host_a_late_ack_does_not_undo_a_loss),
	  unit_test(one_host_arms_no_timer_while_segments_are_taken),
	  unit_test(a_peer_that_comes_late_is_reached), unit_test(progress_gives_all_retries_back),
	  unit_test(rnr_retries_are_counted), unit_test(rnr_retry_7_never_gives_up),
	  unit_test(the_rnr_timer_is_waited_for),
	  unit_test(one_host_a_posted_receive_ends_the_rnr_wait),
	  unit_test(a_lost_packet_is_sent_again_at_once_after_the_nak),
	  unit_test(a_lost_read_response_is_asked_for_again),
	  unit_test(a_read_goes_on_where_its_response_broke_off),
	  unit_test(an_ack_behind_a_read_says_its_response_was_lost),
	  unit_test(an_rnr_nak_behind_a_read_says_its_response_was_lost),
	  unit_test(one_host_an_rnr_nak_behind_a_read_waits_for_its_response))
