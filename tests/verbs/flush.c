// SPDX-License-Identifier: MIT
/* What becomes of work when a QP stops: flushes, RESET, SQD, and what is never signalled. Each case
 * with the peer in this process and in another one. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { TOGETHER, APART };
enum { WRITES = 400, PAGE = 4096 }; /* more than a ring has room for */

static struct duo duo;
static struct ibv_qp *qp;
static struct ibv_cq *cq;

static void begin(int where, struct duo_opts o)
{
	o.together = where == TOGETHER;
	duo_open(&duo, &o);
	qp = duo.near.ep.qp;
	cq = duo.near.ep.scq;
}

static void begin_rc(int where)
{
	begin(where, (struct duo_opts){ .qp.type = IBV_QPT_RC });
}

static void post(uint64_t id, enum ibv_wr_opcode op, unsigned int flags)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, op, &sg, 8);

	wr.wr_id = id;
	wr.send_flags = flags;
	want_eq(duo_post(&duo, &wr), 0);
}

static void receives(int n, uint64_t first_id)
{
	struct ibv_sge sg = { (uintptr_t)duo.near.mem, 8, duo.near.mr->lkey };

	for (int i = 0; i < n; i++)
		peer_recv(&duo.near.ep, first_id + (uint64_t)i, &sg, 1);
}

static int move_to(enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

static void empty(void)
{
	struct ibv_wc wc;

	want_eq(ibv_poll_cq(cq, 1, &wc), 0);
}

static void far_receives(int n)
{
	for (int i = 0; i < n; i++)
		duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64, .id = (uint64_t)i });
}

/* Every work request completes, each queue in order, unsignalled ones too. */
static void error_flushes_everything_in_order(int where)
{
	uint64_t send = 100, recv = 200;
	struct ibv_wc wc;

	begin(where, (struct duo_opts){ .qp = { .type = IBV_QPT_RC, .min_rnr_timer = 31 } });
	receives(16, recv);
	for (int i = 0; i < 8; i++) /* nobody receives: they stay outstanding */
		post(send + (uint64_t)i, IBV_WR_SEND, i & 1 ? IBV_SEND_SIGNALED : 0);
	want_eq(move_to(IBV_QPS_ERR), 0);
	for (int i = 0; i < 24; i++) {
		want(peer_poll(cq, &wc, 10000));
		want_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
		want_eq(wc.vendor_err, wc.wr_id >= 200 ? 0xf9 : 0xf5);
		want_eq(wc.wr_id, wc.wr_id >= 200 ? recv++ : send++);
	}
	want_eq(send, 108);
	want_eq(recv, 216);
	empty();
	duo_close(&duo);
}

static void posts_in_error_are_flushed(int where)
{
	struct ibv_wc wc;

	begin_rc(where);
	want_eq(move_to(IBV_QPS_ERR), 0);
	for (uint64_t i = 0; i < 40; i++) { /* more than the queue holds: slots come back */
		post(i, IBV_WR_RDMA_WRITE, 0);
		wc = duo_wc(&duo);
		want(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == i);
		receives(1, i);
		wc = duo_wc(&duo);
		want(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == i && wc.vendor_err == 0xf9);
	}
	duo_close(&duo);
}

/* A failed work request in the middle: those before succeed, those behind are flushed. */
static void failure_flushes_what_is_behind(int where)
{
	struct ibv_sge sg[3];
	struct ibv_send_wr wr[3], *bad;
	struct ibv_wc wc;

	begin_rc(where);
	for (int i = 0; i < 3; i++) {
		wr[i] = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg[i], 8);
		wr[i].wr_id = (uint64_t)i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].wr.rdma.rkey ^= 0x11;
	wr[2].send_flags = 0;
	want_eq(ibv_post_send(qp, wr, &bad), 0);
	wc = duo_wc(&duo);
	want(wc.wr_id == 0 && wc.status == IBV_WC_SUCCESS);
	wc = duo_wc(&duo);
	want(wc.wr_id == 1 && wc.status == IBV_WC_REM_ACCESS_ERR);
	wc = duo_wc(&duo);
	want(wc.wr_id == 2 && wc.status == IBV_WC_WR_FLUSH_ERR);
	duo_close(&duo);
}

/* What an SRQ holds is not flushed; the event says when the QP takes no more of it. */
static void last_wqe_reached(int where)
{
	struct duo_answer a;

	begin(where, (struct duo_opts){ .qp.type = IBV_QPT_RC, .far_srq = true });
	far_receives(2);
	duo_tell(&duo, (struct duo_order){ DUO_MODIFY, .id = IBV_QPS_ERR });
	a = duo_tell(&duo, (struct duo_order){ DUO_EVENT, .len = 10000 });
	want(a.found && a.value == IBV_EVENT_QP_LAST_WQE_REACHED);
	want(!duo_tell(&duo, (struct duo_order){ DUO_POLL, .len = 0 }).found);
	duo_close(&duo);
}

/* RESET takes this QP's completions out of the CQ, and the QP starts anew. */
static void reset_purges_and_makes_new(int where)
{
	struct ibv_wc wc;

	begin_rc(where);
	far_receives(4);
	for (int i = 0; i < 4; i++)
		post(1, IBV_WR_SEND, IBV_SEND_SIGNALED);
	for (int i = 0; i < 4; i++)
		want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
	receives(3, 50);
	want_eq(move_to(IBV_QPS_ERR), 0); /* four successes, or some flushed, three receives */
	want_eq(move_to(IBV_QPS_RESET), 0);
	empty();
	duo.near.ep.mine.psn = 77;
	duo_tell(&duo, (struct duo_order){ DUO_MODIFY, .id = IBV_QPS_RESET });
	if (where == APART) {
		duo_close(&duo);
		return;
	}
	duo.far.ep.theirs.psn = 77;
	peer_connect(&duo.near.ep, &duo.o.qp);
	peer_connect(&duo.far.ep, &duo.o.qp);
	for (int i = 0; i < 40; i++) {
		far_receives(1);
		post(60, IBV_WR_SEND, IBV_SEND_SIGNALED);
		wc = duo_wc(&duo);
		want(wc.status == IBV_WC_SUCCESS && wc.wr_id == 60);
		want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
	}
	duo_close(&duo);
}

/* Only completions of the QP that goes are purged, though they share the CQ. */
static void reset_leaves_the_others_completions(int arg)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_recv_wr wr = { .wr_id = 5 }, *bad;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct peer_ep other = { .scq = NULL };
	struct ibv_wc wc;

	(void)arg;
	begin_rc(TOGETHER);
	init.send_cq = init.recv_cq = cq;
	other.qp = ibv_create_qp(duo.near.dev.pd, &init);
	want(other.qp);
	peer_init(&other, &duo.o.qp);
	want_eq(ibv_post_recv(other.qp, &wr, &bad), 0);
	receives(2, 50);
	want_eq(ibv_modify_qp(other.qp, &a, IBV_QP_STATE), 0);
	want_eq(move_to(IBV_QPS_ERR), 0);
	want_eq(move_to(IBV_QPS_RESET), 0);
	wc = duo_wc(&duo);
	want(wc.wr_id == 5 && wc.qp_num == other.qp->qp_num);
	empty();
	want_eq(ibv_destroy_qp(other.qp), 0);
	duo_close(&duo);
}

static void destroy_purges_too(int arg)
{
	(void)arg;
	begin_rc(TOGETHER);
	receives(5, 50);
	want_eq(move_to(IBV_QPS_ERR), 0);
	want_eq(ibv_destroy_qp(qp), 0);
	empty();
}

/* --- unsignalled work --- */

/* Slots of unsignalled sends come back when a later completion is polled. */
static void unsignalled_slots_return(int where)
{
	struct ibv_wc wc;

	begin_rc(where);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 15; i++)
			post(1, IBV_WR_RDMA_WRITE, 0);
		post(2, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
		wc = duo_wc(&duo);
		want(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2);
	}
	empty();
	duo_close(&duo);
}

static void sq_sig_all_signals_all(int where)
{
	begin(where, (struct duo_opts){ .qp = { .type = IBV_QPT_RC, .sig_all = true } });
	for (uint64_t i = 0; i < 10; i++)
		post(i, IBV_WR_RDMA_WRITE, 0);
	for (uint64_t i = 0; i < 10; i++)
		want_eq(duo_wc(&duo).wr_id, i);
	duo_close(&duo);
}

/* --- SQD --- */

/* What was begun is done when the queue is drained; what was not begun waits for RTS. */
static void sqd_drains_and_says_so(int where)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_qp_init_attr init;
	struct ibv_async_event ev;
	struct ibv_wc wc;
	uint64_t done = 0;

	begin_rc(where);
	post(1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
	post(2, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED);
	want_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	want(side_event(&duo.near, &ev, 10000));
	want_eq(ev.event_type, IBV_EVENT_SQ_DRAINED);
	want(ev.element.qp == qp);
	want_eq(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	want_eq(a.qp_state, IBV_QPS_SQD);
	want_eq(a.sq_draining, 0);
	post(3, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
	while (ibv_poll_cq(cq, 1, &wc) == 1)
		want_eq(wc.wr_id, ++done);
	want(done < 3 && !peer_poll(cq, &wc, 20));
	want_eq(move_to(IBV_QPS_RTS), 0);
	while (done < 3)
		want_eq(duo_wc(&duo).wr_id, ++done);
	want_eq(move_to(IBV_QPS_SQD), 0); /* and this time nobody has asked for the event */
	want(!side_event(&duo.near, &ev, 20));
	duo_close(&duo);
}

/* Receives go on in SQD. */
static void sqd_still_receives(int where)
{
	struct ibv_wc wc;

	begin_rc(where);
	want_eq(move_to(IBV_QPS_SQD), 0);
	receives(1, 9);
	if (where == TOGETHER) {
		struct ibv_sge sg = { (uintptr_t)duo.far.mem, 8, duo.far.mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sg,
					  .num_sge = 1,
					  .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED },
				   *bad;

		want_eq(ibv_post_send(duo.far.ep.qp, &wr, &bad), 0);
		wc = duo_wc(&duo);
		want(wc.wr_id == 9 && wc.status == IBV_WC_SUCCESS);
	}
	duo_close(&duo);
}

/* The ring to a process that is stopped fills. A new path, here the same again, ends the wait for
 * room on the old one, and the queue pair goes on by itself. */
static void sqd_takes_a_new_path_while_the_link_is_full(int arg)
{
	struct duo_opts o = {
		.qp = { .type = IBV_QPT_RC, .cap = { WRITES + 2, 4, 1, 1, 0 }, .timeout = 20 }
	};
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_qp_attr a = { 0 };
	struct ibv_qp_init_attr init;
	struct ibv_async_event ev;
	int status;

	(void)arg;
	begin(APART, o);
	far_receives(2);
	post(0, IBV_WR_SEND, IBV_SEND_SIGNALED);
	want_eq(duo_wc(&duo).wr_id, 0);
	want_eq(kill(duo.pid, SIGSTOP), 0);
	want_eq(waitpid(duo.pid, &status, WUNTRACED), duo.pid);
	post(0, IBV_WR_SEND, 0); /* no WRITE overtakes it */
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, PAGE);
	for (wr.wr_id = 1; wr.wr_id <= WRITES; wr.wr_id++) {
		wr.send_flags = wr.wr_id == WRITES ? IBV_SEND_SIGNALED : 0;
		want_eq(duo_post(&duo, &wr), 0);
	}
	want_eq(ibv_query_qp(qp, &a, IBV_QP_AV, &init), 0);
	a.qp_state = IBV_QPS_SQD;
	a.en_sqd_async_notify = 1;
	want_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	want_eq(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV), 0);
	want_eq(kill(duo.pid, SIGCONT), 0);
	want(side_event(&duo.near, &ev, 10000));
	want_eq(ev.event_type, IBV_EVENT_SQ_DRAINED);
	want_eq(move_to(IBV_QPS_RTS), 0);
	want_eq(duo_wc(&duo).wr_id, WRITES);
	duo_close(&duo);
}

/* --- SRQ --- */

static void srq_limit_event_comes_once(int where)
{
	struct duo_answer a;

	begin(where, (struct duo_opts){ .qp.type = IBV_QPT_RC, .far_srq = true });
	far_receives(4);
	duo_tell(&duo, (struct duo_order){ DUO_LIMIT, .len = 3 });
	for (int i = 0; i < 3; i++) {
		post(1, IBV_WR_SEND, IBV_SEND_SIGNALED);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
		want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
	}
	a = duo_tell(&duo, (struct duo_order){ DUO_EVENT, .len = 10000 });
	if (a.value == IBV_EVENT_COMM_EST)
		a = duo_tell(&duo, (struct duo_order){ DUO_EVENT, .len = 10000 });
	want(a.found && a.value == IBV_EVENT_SRQ_LIMIT_REACHED);
	want(!duo_tell(&duo, (struct duo_order){ DUO_EVENT, .len = 0 }).found);
	duo_close(&duo);
}

#define BOTH(f)                                                                                    \
	{ #f " in one process", f, TOGETHER },                                                     \
	{                                                                                          \
#f " between two", f, APART                                                        \
	}

static const struct test_case cases[] = {
	BOTH(error_flushes_everything_in_order),
	BOTH(posts_in_error_are_flushed),
	BOTH(failure_flushes_what_is_behind),
	BOTH(last_wqe_reached),
	BOTH(reset_purges_and_makes_new),
	CASE(reset_leaves_the_others_completions),
	CASE(destroy_purges_too),
	BOTH(unsignalled_slots_return),
	BOTH(sq_sig_all_signals_all),
	BOTH(sqd_drains_and_says_so),
	BOTH(sqd_still_receives),
	CASE(sqd_takes_a_new_path_while_the_link_is_full),
	BOTH(srq_limit_event_comes_once),
};

int main(void)
{
	return CASES_RUN(cases);
}
