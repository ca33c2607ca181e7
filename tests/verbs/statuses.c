// SPDX-License-Identifier: MIT
/* Every completion that fails: status and vendor_err on both sides, the states the QPs end in,
 * and the event that the peer gets. Each case with the peer in this process and in another one. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { TOGETHER, APART };

enum {
	REM_ACCESS = 0x88,
	REM_INV_REQ = 0x8a,
	RNR = 0x87,
	NO_ANSWER = 0x81,
	LOC_PROT = 0x53,
	SEND_FLUSH = 0xf5,
	RECV_FLUSH = 0xf9
};

static struct duo duo;

static void begin(int where, struct duo_opts o)
{
	o.together = where == TOGETHER;
	duo_open(&duo, &o);
}

static void begin_rc(int where)
{
	begin(where, (struct duo_opts){ .qp.type = IBV_QPT_RC });
}

static unsigned int far_state(void)
{
	return (unsigned int)duo_tell(&duo, (struct duo_order){ DUO_STATE }).value;
}

static unsigned int near_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	want_eq(ibv_query_qp(duo.near.ep.qp, &a, IBV_QP_STATE, &init), 0);
	want_eq(a.qp_state, duo.near.ep.qp->state);
	return a.qp_state;
}

/* The near side's work request 7 fails so, and takes the QP to ERR, where the next is flushed. */
static void fails(struct ibv_send_wr *wr, enum ibv_wc_status status, unsigned int vendor)
{
	struct ibv_wc wc;

	wr->wr_id = 7;
	want_eq(duo_post(&duo, wr), 0);
	wc = duo_wc(&duo);
	want_eq(wc.wr_id, 7);
	want_eq(wc.status, status);
	want_eq(wc.vendor_err, vendor);
	want_eq(wc.qp_num, duo.near.ep.mine.qpn);
	want_eq(near_state(), IBV_QPS_ERR);
	duo_send(&duo, IBV_WR_SEND, 8);
	wc = duo_wc(&duo);
	want_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	want_eq(wc.vendor_err, SEND_FLUSH);
}

static void far_event(enum ibv_event_type type)
{
	struct duo_answer a = duo_tell(&duo, (struct duo_order){ DUO_EVENT, .len = 10000 });

	/* that the connection is up may have been told before */
	if (a.found && a.value == IBV_EVENT_COMM_EST)
		a = duo_tell(&duo, (struct duo_order){ DUO_EVENT, .len = 10000 });
	want(a.found);
	want_eq(a.value, type);
}

static void no_far_event(void)
{
	want(!duo_tell(&duo, (struct duo_order){ DUO_EVENT, .len = 0 }).found);
}

static void far_fails(enum ibv_wc_status status)
{
	struct ibv_wc wc = duo_far_wc(&duo);

	want_eq(wc.status, status);
	want_eq(wc.qp_num, duo.near.ep.theirs.qpn);
	want_eq(far_state(), IBV_QPS_ERR);
}

/* --- the peer refuses --- */

static void bad_rkey(int where, enum ibv_wr_opcode op)
{
	bool atomic = op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin_rc(where);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64 });
	wr = duo_wr(&duo, op, &sg, 8);
	if (atomic)
		wr.wr.atomic.rkey ^= 0x11;
	else
		wr.wr.rdma.rkey ^= 0x11;
	fails(&wr, IBV_WC_REM_ACCESS_ERR, REM_ACCESS);
	want_eq(far_state(), IBV_QPS_ERR);
	if (op == IBV_WR_RDMA_WRITE_WITH_IMM) {
		want_eq(duo_far_wc(&duo).status, IBV_WC_LOC_ACCESS_ERR);
	} else {
		want_eq(duo_far_wc(&duo).status, IBV_WC_WR_FLUSH_ERR);
		far_event(IBV_EVENT_QP_ACCESS_ERR);
	}
	duo_close(&duo);
}

static void bad_rkey_of_write(int where)
{
	bad_rkey(where, IBV_WR_RDMA_WRITE);
}

static void bad_rkey_of_write_with_immediate(int where)
{
	bad_rkey(where, IBV_WR_RDMA_WRITE_WITH_IMM);
}

static void bad_rkey_of_read(int where)
{
	bad_rkey(where, IBV_WR_RDMA_READ);
}

static void bad_rkey_of_fetch_add(int where)
{
	bad_rkey(where, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static void bad_rkey_of_compare_swap(int where)
{
	bad_rkey(where, IBV_WR_ATOMIC_CMP_AND_SWP);
}

static void operation_not_enabled(int where)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin(where,
	      (struct duo_opts){ .qp.type = IBV_QPT_RC, .far_access = IBV_ACCESS_REMOTE_READ });
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 64);
	fails(&wr, IBV_WC_REM_INV_REQ_ERR, REM_INV_REQ);
	far_event(IBV_EVENT_QP_REQ_ERR);
	want_eq(far_state(), IBV_QPS_ERR);
	duo_close(&duo);
}

static void misaligned_atomic(int where)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin_rc(where);
	wr = duo_wr(&duo, IBV_WR_ATOMIC_FETCH_AND_ADD, &sg, 8);
	wr.wr.atomic.remote_addr += 1;
	fails(&wr, IBV_WC_REM_INV_REQ_ERR, REM_INV_REQ);
	duo_close(&duo);
}

static void receive_too_small(int where)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin_rc(where);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 10, .id = 3 });
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, 11);
	fails(&wr, IBV_WC_REM_INV_REQ_ERR, REM_INV_REQ);
	far_fails(IBV_WC_LOC_LEN_ERR);
	no_far_event(); /* the completion has said it */
	duo_close(&duo);
}

static void receive_with_a_bad_key(int where)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	begin_rc(where);
	duo_tell(&duo, (struct duo_order){ DUO_RECV_KEY, .len = 64, .key = PEER_NO_KEY, .id = 3 });
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, 11);
	wr.wr_id = 7;
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_REM_OP_ERR);
	wc = duo_far_wc(&duo);
	want_eq(wc.status, IBV_WC_LOC_PROT_ERR);
	want_eq(wc.vendor_err, LOC_PROT);
	want_eq(wc.wr_id, 3);
	want_eq(far_state(), IBV_QPS_ERR);
	duo_close(&duo);
}

/* In the first of its two receives: the second one is flushed, and the sender is told nothing. */
static void far_had_no_room(void)
{
	struct ibv_wc wc = duo_far_wc(&duo);

	want_eq(wc.status, IBV_WC_LOC_LEN_ERR);
	want_eq(wc.wr_id, 3);
	wc = duo_far_wc(&duo);
	want_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	want_eq(wc.wr_id, 4);
	want_eq(far_state(), IBV_QPS_ERR);
	want_eq(near_state(), IBV_QPS_RTS);
}

/* What a ConnectX does, not the specification's silence: docs/design/fidelity.md. */
static void datagram_without_room(int where)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_ah *ah;

	begin(where, (struct duo_opts){ .qp.type = IBV_QPT_UD });
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 50, .id = 3 });
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 51, .id = 4 });
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, 11);
	wr.wr.ud.ah = ah = peer_ah(&duo.near.dev, &duo.near.ep.theirs);
	wr.wr.ud.remote_qpn = duo.near.ep.theirs.qpn;
	wr.wr.ud.remote_qkey = 0x11111111;
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(ibv_destroy_ah(ah), 0);
	far_had_no_room();
	duo_close(&duo);
}

/* The same of a message of UC. */
static void uc_message_without_room(int where)
{
	begin(where, (struct duo_opts){ .qp.type = IBV_QPT_UC });
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 10, .id = 3 });
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 11, .id = 4 });
	duo_send(&duo, IBV_WR_SEND, 11);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	far_had_no_room();
	duo_close(&duo);
}

/* An SGE list that ends too early is no failure of the sender's memory: exactly fitting is fine. */
static void receive_that_just_fits(int where)
{
	begin_rc(where);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 11 });
	duo_send(&duo, IBV_WR_SEND, 11);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(duo_far_wc(&duo).byte_len, 11);
	duo_close(&duo);
}

/* --- this side's own --- */

static void bad_lkey(int where, enum ibv_wr_opcode op)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin_rc(where);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64 });
	wr = duo_wr(&duo, op, &sg, 8);
	sg.lkey ^= 0x11;
	fails(&wr, IBV_WC_LOC_PROT_ERR, LOC_PROT);
	want_eq(far_state(), IBV_QPS_RTS); /* nothing has left */
	duo_close(&duo);
}

static void bad_lkey_of_send(int where)
{
	bad_lkey(where, IBV_WR_SEND);
}

static void bad_lkey_of_write(int where)
{
	bad_lkey(where, IBV_WR_RDMA_WRITE);
}

static void bad_lkey_of_read(int where)
{
	bad_lkey(where, IBV_WR_RDMA_READ);
}

static void bad_lkey_of_atomic(int where)
{
	bad_lkey(where, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

/* Both ends are wrong: the landing place is looked at first, and nothing leaves (fidelity.md). */
static void landing_place_before_target(int where)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin_rc(where);
	duo_tell(&duo, (struct duo_order){ DUO_FILL, .id = 5 });
	wr = duo_wr(&duo, IBV_WR_ATOMIC_FETCH_AND_ADD, &sg, 8);
	sg.lkey ^= 0x11;
	wr.wr.atomic.compare_add = 1;
	fails(&wr, IBV_WC_LOC_PROT_ERR, LOC_PROT);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = 64, .id = 5 }).found);
	duo_reconnect(&duo);
	wr.wr.atomic.rkey ^= 0x11;
	fails(&wr, IBV_WC_LOC_PROT_ERR, LOC_PROT);
	want_eq(far_state(), IBV_QPS_RTS);
	duo_close(&duo);
}

/* A failed send of UC stops the send queue alone: SQE, from which RTS leads out. */
static void uc_send_queue_error(int where)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin(where,
	      (struct duo_opts){ .qp = { .type = IBV_QPT_UC, .access = IBV_ACCESS_REMOTE_WRITE } });
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64 });
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, 8);
	sg.lkey ^= 0x11;
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_LOC_PROT_ERR);
	want_eq(near_state(), IBV_QPS_SQE);
	want_eq(ibv_modify_qp(duo.near.ep.qp, &a, IBV_QP_STATE), 0);
	duo_send(&duo, IBV_WR_SEND, 8);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
	duo_close(&duo);
}

/* --- nobody answers, nobody receives --- */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* timeout 14 is 67 ms; the specification lets a try take up to four times as long. */
static void times_out(enum ibv_wr_opcode op)
{
	double start = seconds(), least = 3 * 4.096e-6 * (1 << 14);
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, op, &sg, 8);

	fails(&wr, IBV_WC_RETRY_EXC_ERR, NO_ANSWER);
	want(seconds() - start >= least * 0.99);
	want(seconds() - start < least * 4 + 15); /* a busy machine takes its part */
}

static const struct duo_opts patient = { .qp = { .type = IBV_QPT_RC, .timeout = 14, .retry = 2 } };

static void peer_in_reset(int where)
{
	begin(where, patient);
	duo_tell(&duo, (struct duo_order){ DUO_MODIFY, .id = IBV_QPS_RESET });
	times_out(IBV_WR_RDMA_WRITE);
	duo_close(&duo);
}

static void peer_in_error(int where)
{
	begin(where, patient);
	duo_tell(&duo, (struct duo_order){ DUO_MODIFY, .id = IBV_QPS_ERR });
	times_out(IBV_WR_SEND);
	duo_close(&duo);
}

/* Nothing is posted, and no timer runs: the far side tells that it has become ready. Not behind
 * faults, where no such words are. */
static void peer_becomes_ready(int where)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin(where, (struct duo_opts){ .qp = { .type = IBV_QPT_RC, .endless = true } });
	duo_tell(&duo, (struct duo_order){ DUO_MODIFY, .id = IBV_QPS_RESET });
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 8);
	want_eq(duo_post(&duo, &wr), 0);
	duo_tell(&duo, (struct duo_order){ DUO_CONNECT });
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	duo_close(&duo);
}

static const struct duo_opts impatient = {
	.qp = { .type = IBV_QPT_RC, .timeout = 10, .retry = 2 }
};

/* This side begins with other PSNs than the far side counts on: before them, behind them. The last
 * row: so far behind that the far side takes all for duplicates. */
static void ends_that_count_otherwise(int where)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };
	static const uint32_t ahead[] = { 1, 4000, 0xfffff0 };

	for (int i = 0; i < 12; i++) {
		struct ibv_sge sg;
		struct ibv_send_wr wr;

		begin(where, impatient);
		want_eq(ibv_modify_qp(duo.near.ep.qp, &(struct ibv_qp_attr){ 0 }, IBV_QP_STATE), 0);
		duo.near.ep.mine.psn = (duo.near.ep.mine.psn + ahead[i % 3]) & 0xffffff;
		peer_connect(&duo.near.ep, &duo.o.qp);
		wr = duo_wr(&duo, ops[i / 3], &sg, 8);
		fails(&wr, IBV_WC_RETRY_EXC_ERR, NO_ANSWER);
		duo_close(&duo);
	}
}

static void peer_killed_before(int where)
{
	(void)where;
	begin(APART, patient);
	duo_kill(&duo);
	times_out(IBV_WR_RDMA_READ);
	duo_close(&duo);
}

/* After traffic, so that direct access would be possible. */
static void peer_killed_in_between(int op)
{
	begin(APART, patient);
	for (int i = 0; i < 4; i++) {
		duo_send(&duo, IBV_WR_RDMA_WRITE, 64);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	}
	duo_kill(&duo);
	times_out(op);
	duo_close(&duo);
}

/* Each try waits the peer's min_rnr_timer (14: 1.28 ms... as it says): three tries, two waits. */
static void rnr_tries_are_counted(int where)
{
	double start;
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	begin(where,
	      (struct duo_opts){ .qp = { .type = IBV_QPT_RC, .rnr = 2, .min_rnr_timer = 20 } });
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, 8);
	start = seconds();
	fails(&wr, IBV_WC_RNR_RETRY_EXC_ERR, RNR);
	want(seconds() - start >= 2 * 0.01024 * 0.99);
	want_eq(far_state(), IBV_QPS_RTS);
	duo_close(&duo);
}

/* rnr_retry 7 waits for ever: a receive posted later is found. */
static void rnr_for_ever(int where)
{
	struct ibv_wc wc;

	begin(where, (struct duo_opts){ .qp = { .type = IBV_QPT_RC, .min_rnr_timer = 1 } });
	duo_send(&duo, IBV_WR_SEND, 8);
	want(!peer_poll(duo.near.ep.scq, &wc, 100));
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 8 });
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
	duo_close(&duo);
}

/* UD and UC never report what becomes of a message. */
static void unreliable_send_to_nowhere(int where)
{
	begin(where,
	      (struct duo_opts){ .qp = { .type = IBV_QPT_UC, .access = IBV_ACCESS_REMOTE_WRITE } });
	duo_tell(&duo, (struct duo_order){ DUO_MODIFY, .id = IBV_QPS_RESET });
	duo_send(&duo, IBV_WR_SEND, 8);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	duo_close(&duo);
}

/* --- events that come with no completion --- */

/* A message to a QP that is in RTR still: the connection is established. */
static void first_message_in_rtr(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 2, 2, 1, 1, 0 } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct side s = { .mem = NULL };
	struct ibv_async_event ev;
	struct peer_ep a, b;
	struct ibv_wc wc;

	(void)arg;
	peer_open(&s.dev);
	peer_ep_create(&s.dev, &o, &a);
	peer_ep_create(&s.dev, &o, &b);
	a.theirs = b.mine;
	b.theirs = a.mine;
	peer_connect(&a, &o);
	peer_init(&b, &o);
	peer_rtr(&b, &o);
	for (int i = 0; i < 2; i++) {
		peer_recv(&b, 1, NULL, 0);
		want_eq(ibv_post_send(a.qp, &wr, &bad), 0);
		peer_poll_ok(a.scq, &wc);
		peer_poll_ok(b.rcq, &wc);
	}
	want(side_event(&s, &ev, 10000));
	want_eq(ev.event_type, IBV_EVENT_COMM_EST);
	want(ev.element.qp == b.qp);
	want(!side_event(&s, &ev, 0)); /* once, and not for the side that was in RTS */
	peer_rts(&b, &o);
	peer_ep_destroy(&a);
	peer_ep_destroy(&b);
	peer_close(&s.dev);
}

/* A WRITE into memory that the target has unmapped under its registration: its memory has failed,
 * not the key. */
static void memory_of_the_target_is_gone(int where)
{
	begin_rc(where);
	duo_tell(&duo, (struct duo_order){ DUO_UNMAP, .len = 4096 });
	duo_send(&duo, IBV_WR_RDMA_WRITE, 4096);
	want_eq(duo_wc(&duo).status, IBV_WC_REM_OP_ERR);
	far_event(IBV_EVENT_QP_FATAL);
	want_eq(far_state(), IBV_QPS_ERR);
}

#define BOTH(f)                                                                                    \
	{ #f " in one process", f, TOGETHER },                                                     \
	{                                                                                          \
#f " between two", f, APART                                                        \
	}

static const struct test_case cases[] = {
	BOTH(bad_rkey_of_write),
	BOTH(bad_rkey_of_write_with_immediate),
	BOTH(bad_rkey_of_read),
	BOTH(bad_rkey_of_fetch_add),
	BOTH(bad_rkey_of_compare_swap),
	BOTH(operation_not_enabled),
	BOTH(misaligned_atomic),
	BOTH(receive_too_small),
	BOTH(receive_with_a_bad_key),
	BOTH(receive_that_just_fits),
	BOTH(datagram_without_room),
	BOTH(uc_message_without_room),
	BOTH(bad_lkey_of_send),
	BOTH(bad_lkey_of_write),
	BOTH(bad_lkey_of_read),
	BOTH(bad_lkey_of_atomic),
	BOTH(landing_place_before_target),
	BOTH(uc_send_queue_error),
	BOTH(peer_in_reset),
	BOTH(peer_in_error),
	BOTH(ends_that_count_otherwise),
	CASE(peer_killed_before),
	CASE_ARG(peer_killed_in_between, IBV_WR_RDMA_WRITE),
	CASE_ARG(peer_killed_in_between, IBV_WR_RDMA_READ),
	CASE_ARG(peer_killed_in_between, IBV_WR_SEND),
	BOTH(rnr_tries_are_counted),
	BOTH(rnr_for_ever),
	BOTH(unreliable_send_to_nowhere),
	CASE(first_message_in_rtr),
	BOTH(memory_of_the_target_is_gone),
	BOTH(peer_becomes_ready),
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

int main(void)
{
	return cases_run(cases, getenv("SOFTHCA_FAULT") ? CASES - 2 : CASES);
}
