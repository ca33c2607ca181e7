// SPDX-License-Identifier: MIT
/* DC: one initiator and many targets, in this process and in others, which are on another host if
 * its network namespace is the argument (wire/dc.py). */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "mlx5dv/dc_duo.h"
#include "verbs/said.h"

enum { ONE_OTHER = 1, TWO_OTHERS = 2 };

static struct dc_duo d;

static void tell(enum dc_op op, uint32_t target, uint32_t len, uint64_t id)
{
	want(dc_tell(&d, (struct dc_order){ op, target, len, id }).found);
}

static struct ibv_wc far_wc(uint32_t target)
{
	struct dc_answer a = dc_tell(&d, (struct dc_order){ DC_POLL, .target = target });

	want(a.found);
	return a.wc;
}

static void arrived(uint32_t target, uint64_t id, uint32_t len)
{
	struct ibv_wc wc = far_wc(target);

	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.wr_id, id);
	want_eq(wc.byte_len, len);
	want_eq(wc.qp_num, d.to[target].dctn);
}

/* Lengths on both sides of the MTU and of what links send by reference. */
static const uint32_t lengths[] = { 0, 1, 8, 4095, 4097, 70000, DC_BYTES };

static void sends(int processes)
{
	dc_open(&d, (unsigned int)processes);
	for (uint32_t n = 0; n < sizeof(lengths) / sizeof(lengths[0]); n++)
		for (uint32_t t = 0; t < d.targets; t++) {
			uint64_t id = n * 100 + t;

			tell(DC_RECV, t, DC_BYTES, id);
			pattern_fill(d.mem, lengths[n], id, 0);
			dc_post(&d, &d.i, IBV_WR_SEND, t, lengths[n], id);
			dc_done(&d.i, id);
			arrived(t, id, lengths[n]);
			tell(DC_CHECK, t, lengths[n], id);
		}
	dc_close(&d);
}

/* An access key whose first half stands where a SEND of RC has its list, and looks like 48 bytes of
 * inline data, which would take as many segments. */
static void a_key_like_a_length(int processes)
{
	dc_key = UINT64_C(0x8000003000000042);
	dc_open(&d, (unsigned int)processes);
	for (uint64_t id = 0; id < 10; id++) {
		tell(DC_RECV, 0, DC_BYTES, id);
		pattern_fill(d.mem, 100, id, 0);
		dc_post(&d, &d.i, IBV_WR_SEND, 0, 100, id);
		dc_done(&d.i, id);
		arrived(0, id, 100);
		tell(DC_CHECK, 0, 100, id);
	}
	dc_close(&d);
}

static void immediates(int processes)
{
	dc_open(&d, (unsigned int)processes);
	for (uint32_t t = 0; t < d.targets; t++) {
		struct ibv_wc wc;

		tell(DC_RECV, t, 64, t);
		tell(DC_RECV, t, 64, t);
		dc_post(&d, &d.i, IBV_WR_SEND_WITH_IMM, t, 8, 0x1000 + t);
		dc_post(&d, &d.i, IBV_WR_RDMA_WRITE_WITH_IMM, t, 8, 0x2000 + t);
		dc_done(&d.i, 0x1000 + t);
		dc_done(&d.i, 0x2000 + t);
		wc = far_wc(t);
		want_eq(wc.opcode, IBV_WC_RECV);
		want_eq(be32toh(wc.imm_data), 0x1000 + t);
		wc = far_wc(t);
		want_eq(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		want_eq(be32toh(wc.imm_data), 0x2000 + t);
	}
	dc_close(&d);
}

static void writes_and_reads(int processes)
{
	dc_open(&d, (unsigned int)processes);
	for (uint32_t n = 1; n < sizeof(lengths) / sizeof(lengths[0]); n++)
		for (uint32_t t = 0; t < d.targets; t++) {
			uint64_t id = n * 100 + t;

			pattern_fill(d.mem, lengths[n], id, 0);
			dc_post(&d, &d.i, IBV_WR_RDMA_WRITE, t, lengths[n], id);
			dc_done(&d.i, id);
			tell(DC_CHECK, t, lengths[n], id);
			tell(DC_FILL, t, 0, id + 7);
			dc_post(&d, &d.i, IBV_WR_RDMA_READ, t, lengths[n], id);
			dc_done(&d.i, id);
			want_eq(pattern_check(d.mem, lengths[n], id + 7, 0), lengths[n]);
		}
	dc_close(&d);
}

static void atomics(int processes)
{
	uint64_t was;

	dc_open(&d, (unsigned int)processes);
	for (uint32_t t = 0; t < d.targets; t++) {
		dc_post(&d, &d.i, IBV_WR_ATOMIC_FETCH_AND_ADD, t, 8, 40);
		dc_done(&d.i, 40);
		memcpy(&was, d.mem, sizeof(was));
		want_eq(was, 0);
		dc_post(&d, &d.i, IBV_WR_ATOMIC_CMP_AND_SWP, t, 8, 40);
		dc_done(&d.i, 40);
		memcpy(&was, d.mem, sizeof(was));
		want_eq(was, 40);
		dc_post(&d, &d.i, IBV_WR_ATOMIC_FETCH_AND_ADD, t, 8, 0);
		dc_done(&d.i, 0);
		memcpy(&was, d.mem, sizeof(was));
		want_eq(was, 41);
	}
	dc_close(&d);
}

/* Memory that has no pages yet when it is registered (dc_odp_caps). */
static void on_demand(int processes)
{
	dc_access = IBV_ACCESS_ON_DEMAND;
	writes_and_reads(processes);
	atomics(processes);
	sends(processes);
}

/* Of an initiator that was created without streams: they change nothing. */
static void streams(int processes)
{
	dc_open(&d, (unsigned int)processes);
	for (uint32_t i = 0; i < 8; i++) {
		tell(DC_RECV, i % d.targets, 64, i);
		ibv_wr_start(d.i.ex);
		d.i.ex->wr_id = i;
		d.i.ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(d.i.ex);
		mlx5dv_wr_set_dc_addr_stream(d.i.dv, d.ah, d.to[i % d.targets].dctn, DC_KEY,
					     (uint16_t)(77 * i));
		ibv_wr_set_sge(d.i.ex, d.mr->lkey, (uintptr_t)d.mem, 8);
		want_eq(ibv_wr_complete(d.i.ex), 0);
	}
	for (uint32_t i = 0; i < 8; i++)
		dc_done(&d.i, i);
	dc_close(&d);
}

/* Many work requests to targets in turn stand in the queue at once: order, and no receive too
 * many. */
static void in_turn(int processes)
{
	enum { N = 60 };

	dc_open(&d, (unsigned int)processes);
	for (uint32_t i = 0; i < N; i++)
		tell(DC_RECV, i % d.targets, 64, i);
	for (uint32_t i = 0; i < N; i++)
		dc_post(&d, &d.i, IBV_WR_SEND_WITH_IMM, i % d.targets, 16, i);
	for (uint32_t i = 0; i < N; i++)
		dc_done(&d.i, i);
	for (uint32_t i = 0; i < N; i++) {
		struct ibv_wc wc = far_wc(i % d.targets);

		want_eq(wc.wr_id, i);
		want_eq(be32toh(wc.imm_data), i);
	}
	dc_close(&d);
}

/* The responder of a second initiator is another one, and both are served. */
static void two_initiators(int processes)
{
	struct dc_peer other;

	dc_open(&d, (unsigned int)processes);
	dc_initiator(&d, &other);
	for (uint32_t i = 0; i < 20; i++)
		tell(DC_RECV, 0, 64, i);
	for (uint32_t i = 0; i < 20; i++)
		dc_post(&d, i % 2 ? &other : &d.i, IBV_WR_SEND, 0, 16, i);
	for (uint32_t i = 0; i < 20; i++)
		dc_done(i % 2 ? &other : &d.i, i);
	for (uint32_t i = 0; i < 20; i++)
		want_eq(far_wc(0).status, IBV_WC_SUCCESS);
	want_eq(ibv_destroy_qp(other.qp), 0);
	want_eq(ibv_destroy_cq(other.cq), 0);
	dc_close(&d);
}

/* The initiator fails, the target hears of it and goes on; after RESET the initiator does too. */
static void wrong_key(int processes)
{
	struct dc_answer a;
	struct ibv_wc wc;

	said_begin();
	dc_open(&d, (unsigned int)processes);
	tell(DC_RECV, 1, 64, 5);
	d.key = DC_KEY + 1;
	dc_post(&d, &d.i, IBV_WR_SEND, 1, 8, 1);
	d.key = DC_KEY;
	dc_post(&d, &d.i, IBV_WR_SEND, 1, 8, 2);
	wc = dc_wc(&d.i);
	want_eq(wc.wr_id, 1);
	want_eq(wc.status, IBV_WC_REM_ACCESS_ERR);
	wc = dc_wc(&d.i);
	want_eq(wc.wr_id, 2);
	want_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	a = dc_tell(&d, (struct dc_order){ DC_EVENT, .target = 1 });
	want(a.found);
	want_eq(a.value, IBV_EVENT_QP_ACCESS_ERR);
	want_eq(dc_tell(&d, (struct dc_order){ DC_STATE, .target = 1 }).value, IBV_QPS_RTR);
	tell(DC_NONE_CAME, 1, 0, 0);
	dc_connect(&d.i);
	dc_post(&d, &d.i, IBV_WR_SEND, 1, 8, 3);
	dc_done(&d.i, 3);
	arrived(1, 5, 8);
	dc_close(&d);
}

/* However often its peers are wrong, the program finds one event. */
static void one_event(uint32_t target)
{
	want_eq(dc_tell(&d, (struct dc_order){ DC_EVENT, .target = target }).value,
		IBV_EVENT_QP_ACCESS_ERR);
	want(dc_tell(&d, (struct dc_order){ DC_NO_EVENT, .target = target }).found);
}

static void wrong_key_again(int processes)
{
	enum { TIMES = 3 };

	said_begin();
	dc_open(&d, (unsigned int)processes);
	d.key = DC_KEY + 1;
	for (uint64_t i = 0; i < TIMES; i++) {
		struct ibv_wc wc;

		dc_post(&d, &d.i, IBV_WR_SEND, 1, 8, i);
		wc = dc_wc(&d.i);
		want_eq(wc.status, IBV_WC_REM_ACCESS_ERR);
		dc_connect(&d.i);
	}
	one_event(1);
	dc_close(&d);
}

/* A wrong rkey ends the connection, not the target. */
static void wrong_rkey(int processes)
{
	uint32_t rkey;
	struct ibv_wc wc;

	dc_open(&d, (unsigned int)processes);
	dc_post(&d, &d.i, IBV_WR_RDMA_WRITE, 0, 8, 1);
	dc_done(&d.i, 1);
	rkey = d.to[0].rkey;
	d.to[0].rkey = PEER_NO_KEY;
	dc_post(&d, &d.i, IBV_WR_RDMA_WRITE, 0, 8, 2);
	d.to[0].rkey = rkey;
	wc = dc_wc(&d.i);
	want_eq(wc.status, IBV_WC_REM_ACCESS_ERR);
	want_eq(dc_tell(&d, (struct dc_order){ DC_EVENT, .target = 0 }).value,
		IBV_EVENT_QP_ACCESS_ERR);
	want_eq(dc_tell(&d, (struct dc_order){ DC_STATE, .target = 0 }).value, IBV_QPS_RTR);
	dc_connect(&d.i);
	dc_post(&d, &d.i, IBV_WR_RDMA_WRITE, 0, 8, 3);
	dc_done(&d.i, 3);
	dc_close(&d);
}

static void wrong_rkey_again(int processes)
{
	enum { TIMES = 3 };

	dc_open(&d, (unsigned int)processes);
	d.to[1].rkey = PEER_NO_KEY;
	for (uint64_t i = 0; i < TIMES; i++) {
		struct ibv_wc wc;

		dc_post(&d, &d.i, IBV_WR_RDMA_WRITE, 1, 8, i);
		wc = dc_wc(&d.i);
		want_eq(wc.status, IBV_WC_REM_ACCESS_ERR);
		dc_connect(&d.i);
	}
	one_event(1);
	dc_close(&d);
}

/* A SEND waits until a receive is posted, and the next target waits behind it. */
static void no_receive(int processes)
{
	struct ibv_wc wc;

	dc_open(&d, (unsigned int)processes);
	tell(DC_RECV, 1, 64, 11);
	dc_post(&d, &d.i, IBV_WR_SEND, 0, 8, 1);
	dc_post(&d, &d.i, IBV_WR_SEND, 1, 8, 2);
	want_eq(ibv_poll_cq(d.i.cq, 1, &wc), 0);
	tell(DC_NONE_CAME, 1, 0, 0);
	tell(DC_RECV, 0, 64, 10);
	dc_done(&d.i, 1);
	dc_done(&d.i, 2);
	arrived(0, 10, 8);
	arrived(1, 11, 8);
	dc_close(&d);
}

/* Its responders end with it; who goes on sending there runs out of tries. */
static void target_destroyed(int processes)
{
	struct ibv_wc wc;

	dc_open(&d, (unsigned int)processes);
	tell(DC_RECV, 0, 64, 1);
	dc_post(&d, &d.i, IBV_WR_SEND, 0, 8, 1);
	dc_done(&d.i, 1);
	tell(DC_DESTROY, 0, 0, 0);
	dc_post(&d, &d.i, IBV_WR_SEND, 0, 8, 2);
	wc = dc_wc(&d.i);
	want_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
	dc_connect(&d.i);
	dc_post(&d, &d.i, IBV_WR_SEND, 0, 8, 3); /* never connected */
	wc = dc_wc(&d.i);
	want_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
	dc_connect(&d.i);
	tell(DC_RECV, 1, 64, 1);
	dc_post(&d, &d.i, IBV_WR_SEND, 1, 8, 4);
	dc_done(&d.i, 4);
	dc_close(&d);
}

/* A child destroys its copies of the targets and of what their responders use. */
static void destroyed_in_a_child(int arg)
{
	pid_t pid;

	(void)arg;
	dc_open(&d, THIS_PROCESS);
	for (uint32_t t = 0; t < d.targets; t++) {
		tell(DC_RECV, t, 64, t);
		dc_post(&d, &d.i, IBV_WR_SEND, t, 8, t);
		dc_done(&d.i, t);
		arrived(t, t, 8);
	}
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		dc_close(&d);
		_exit(0);
	}
	want_eq(peer_wait(pid), 0);
	tell(DC_RECV, 0, 64, 10);
	dc_post(&d, &d.i, IBV_WR_SEND, 0, 8, 10);
	dc_done(&d.i, 10);
	arrived(0, 10, 8);
	dc_close(&d);
}

/* A target in RESET answers nobody, and everybody again in RTR. */
static void target_reset(int processes)
{
	dc_open(&d, (unsigned int)processes);
	tell(DC_RECV, 0, 64, 1);
	dc_post(&d, &d.i, IBV_WR_SEND, 0, 8, 1);
	dc_done(&d.i, 1);
	tell(DC_CLOSE, 0, 0, 0);
	dc_connect(&d.i);
	tell(DC_RECV, 0, 64, 2);
	dc_post(&d, &d.i, IBV_WR_SEND, 0, 8, 2);
	dc_done(&d.i, 2);
	dc_close(&d);
}

/* No connection, no completion, no crash. */
static void destroyed_in_the_middle(int processes)
{
	struct dc_peer other;

	dc_open(&d, (unsigned int)processes);
	for (uint32_t i = 0; i < 20; i++) {
		dc_initiator(&d, &other);
		dc_post(&d, &other, IBV_WR_SEND, i % d.targets, 8, 1); /* no receive */
		want_eq(ibv_destroy_qp(other.qp), 0);
		want_eq(ibv_destroy_cq(other.cq), 0);
	}
	dc_close(&d);
}

/* As many connections as a target may have, and one more, which gets the place of one that ends. */
static void all_connections(int arg)
{
	enum { LIMIT = 1024 };
	static struct dc_peer all[LIMIT];
	struct ibv_wc wc;

	(void)arg;
	dc_open(&d, ONE_OTHER);
	for (uint32_t i = 0; i < LIMIT; i++) {
		dc_initiator(&d, &all[i]);
		dc_post(&d, &all[i], IBV_WR_RDMA_WRITE, 0, 8, i);
		dc_done(&all[i], i);
	}
	dc_post(&d, &d.i, IBV_WR_RDMA_WRITE, 0, 8, 7);
	want_eq(ibv_destroy_qp(all[0].qp), 0);
	dc_done(&d.i, 7);
	for (uint32_t i = 0; i < LIMIT; i++) {
		if (i)
			want_eq(ibv_destroy_qp(all[i].qp), 0);
		want_eq(ibv_poll_cq(all[i].cq, 1, &wc), 0);
		want_eq(ibv_destroy_cq(all[i].cq), 0);
	}
	dc_close(&d);
}

static void no_address(int arg)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	(void)arg;
	said_begin();
	dc_open(&d, THIS_PROCESS);
	ibv_wr_start(d.i.ex);
	ibv_wr_send(d.i.ex);
	want_errno((errno = ibv_wr_complete(d.i.ex)), EINVAL);
	said_want(SAID_NEAR,
		  "ibv_wr_complete: a DC send on QP 0x%x has no address; call "
		  "mlx5dv_wr_set_dc_addr",
		  d.i.qp->qp_num);
	want_errno((errno = ibv_post_send(d.i.qp, &wr, &bad)), EINVAL);
	ibv_wr_start(d.i.ex);
	mlx5dv_wr_set_dc_addr(d.i.dv, d.ah, 1, 2);
	want_errno((errno = ibv_wr_complete(d.i.ex)), EINVAL);
	ibv_wr_start(d.i.ex);
	ibv_wr_send(d.i.ex);
	mlx5dv_wr_set_dc_addr(d.i.dv, NULL, 1, 2);
	want_errno((errno = ibv_wr_complete(d.i.ex)), EINVAL);
	ibv_wr_start(d.i.ex);
	ibv_wr_send(d.i.ex);
	mlx5dv_wr_set_dc_addr_stream(d.i.dv, d.ah, 1, 2, 3);
	mlx5dv_wr_set_dc_addr(d.i.dv, d.ah, 1, 2); /* a second one */
	want_errno((errno = ibv_wr_complete(d.i.ex)), EINVAL);
	dc_close(&d);
}

/* A target sends nothing that a rate could slow down. */
static void rate_of_a_target(int arg)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1000 };
	struct peer_dev dev;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	(void)arg;
	said_begin();
	peer_open(&dev);
	cq = ibv_create_cq(dev.ctx, 1, NULL, NULL, 0);
	srq = ibv_create_srq(dev.pd, &init);
	want(cq && srq);
	qp = dc_target_make(&dev, cq, srq, DC_KEY);
	want_errno(ibv_modify_qp_rate_limit(qp, &rate), EINVAL);
	said_want(SAID_NEAR,
		  "ibv_modify_qp_rate_limit: QP 0x%x is of type DC target, which sends nothing; "
		  "set it on "
		  "the QP that sends",
		  qp->qp_num);
	want_eq(ibv_destroy_qp(qp), 0);
	want_eq(ibv_destroy_srq(srq), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	peer_close(&dev);
}

#define EVERYWHERE(f) CASE_ARG(f, THIS_PROCESS), CASE_ARG(f, ONE_OTHER)

static const struct test_case cases[] = {
	EVERYWHERE(sends),
	CASE_ARG(sends, TWO_OTHERS),
	EVERYWHERE(a_key_like_a_length),
	EVERYWHERE(immediates),
	EVERYWHERE(writes_and_reads),
	CASE_ARG(writes_and_reads, TWO_OTHERS),
	EVERYWHERE(atomics),
	EVERYWHERE(on_demand),
	EVERYWHERE(streams),
	EVERYWHERE(in_turn),
	CASE_ARG(in_turn, TWO_OTHERS),
	EVERYWHERE(two_initiators),
	EVERYWHERE(wrong_key),
	EVERYWHERE(wrong_key_again),
	EVERYWHERE(wrong_rkey),
	EVERYWHERE(wrong_rkey_again),
	EVERYWHERE(no_receive),
	EVERYWHERE(target_destroyed),
	CASE(destroyed_in_a_child),
	EVERYWHERE(target_reset),
	EVERYWHERE(destroyed_in_the_middle),
	CASE(all_connections),
	CASE(no_address),
	CASE(rate_of_a_target),
};

int main(int argc, char **argv)
{
	dc_far = argc > 1 ? argv[1] : NULL;
	return CASES_RUN(cases);
}
