// SPDX-License-Identifier: MIT
/* pthread_cancel: posting, polling and arming end no thread, whatever they have to do; a thread
 * that sleeps in ibv_get_cq_event() or ibv_get_async_event() ends, and holds nothing then. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "verbs/cancelled.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum { ROUNDS = 60, FAILURES = 10, BYTES = 1 << 16, SLEEPERS = 40, PATIENCE_MS = 60000 };

static struct duo duo;
static int through; /* calls that a cancelled thread has come back from */

static bool one(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int got;

	if (ibv_req_notify_cq(duo.near.ep.scq, 0) || ibv_post_send(duo.near.ep.qp, wr, &bad))
		return false;
	do
		got = ibv_poll_cq(duo.near.ep.scq, 1, &wc);
	while (!got);
	return got == 1 && wc.status == IBV_WC_SUCCESS;
}

static void *works(void *arg)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };
	static const uint32_t lens[] = { 8, 4096, BYTES };
	struct ibv_sge sg;

	(void)arg;
	be_cancelled();
	for (int i = 0; i < ROUNDS; i++) {
		enum ibv_wr_opcode op = ops[i % 3];
		struct ibv_send_wr wr = duo_wr(&duo, op, &sg, i % 3 == 2 ? 8 : lens[i / 3 % 3]);

		if (!one(&wr))
			break;
		through++;
	}
	return NULL;
}

/* By rings where SOFTHCA_DIRECT is 0, else by direct access as well; the far side sleeps. */
static void work_ends_no_thread(int together)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .cap = { 16, 16, 4, 4, 0 } },
			      .together = together };

	duo_open(&duo, &o);
	run_cancelled(works);
	want_eq(through, ROUNDS);
	duo_close(&duo);
}

/* --- what goes into files --- */

static bool has_grown(const char *file)
{
	struct stat st;

	return !stat(file, &st) && st.st_size;
}

static void traced_work_ends_no_thread(int arg)
{
	const char *tmp = getenv("TMPDIR");
	char file[512];

	(void)arg;
	snprintf(file, sizeof(file), "%s/cancelled-%d", tmp ? tmp : "/tmp", getpid());
	want_eq(setenv("SOFTHCA_TRACE", file, 1), 0);
	work_ends_no_thread(true);
	want(has_grown(file));
	want_eq(unlink(file), 0);
}

static void *fails(void *arg)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 64);

	(void)arg;
	wr.wr.rdma.rkey ^= 1;
	be_cancelled();
	for (int i = 0; i < 2 && !one(&wr); i++) /* the second is flushed */
		through++;
	return NULL;
}

static void explained_failures_end_no_thread(int arg)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .cap = { 16, 16, 4, 4, 0 } },
			      .together = true };

	(void)arg;
	said_begin();
	for (int i = 1; i <= FAILURES; i++) { /* the engine's thread may explain some */
		duo_open(&duo, &o);
		run_cancelled(fails);
		want_eq(through, 2 * i);
		duo_close(&duo);
	}
	want(has_grown(said_file(SAID_NEAR)));
}

/* --- a network: datagrams to an address of this machine that is not ours --- */

static struct ibv_ah *far_away;

static void *sends(void *arg)
{
	struct ibv_sge sg = { (uintptr_t)duo.near.mem, 64, duo.near.mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};

	(void)arg;
	wr.wr.ud.ah = far_away;
	wr.wr.ud.remote_qpn = 5;
	be_cancelled();
	for (int i = 0; i < ROUNDS && one(&wr); i++)
		through++;
	return NULL;
}

static void datagrams_end_no_thread(int arg)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_UD, .cap = { 16, 16, 4, 4, 0 } },
			      .together = true };
	struct peer_addr to;

	(void)arg;
	duo_open(&duo, &o);
	to = duo.near.ep.theirs;
	to.gid.raw[15] ^= 0x40;
	far_away = peer_ah(&duo.near.dev, &to);
	run_cancelled(sends);
	want_eq(through, ROUNDS);
	want_eq(ibv_destroy_ah(far_away), 0);
	duo_close(&duo);
}

/* --- the sleep --- */

static struct peer_dev dev;
static struct peer_ep a;
static struct ibv_comp_channel *channel;
static sem_t begun;

static void *takes_events(void *arg)
{
	struct ibv_cq *cq;
	void *context;

	(void)arg;
	sem_post(&begun);
	while (!ibv_get_cq_event(channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void *takes_async(void *arg)
{
	struct ibv_async_event ev;

	(void)arg;
	sem_post(&begun);
	while (!ibv_get_async_event(dev.ctx, &ev))
		ibv_ack_async_event(&ev);
	return NULL;
}

static void open_pair(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .cap = { 16, 16, 1, 1, 0 } };
	struct peer_opts o = { .type = IBV_QPT_UD };

	peer_open(&dev);
	channel = ibv_create_comp_channel(dev.ctx);
	want(channel);
	a.scq = a.rcq = ibv_create_cq(dev.ctx, 64, NULL, channel, 0);
	want(a.scq);
	init.send_cq = init.recv_cq = a.scq;
	a.qp = ibv_create_qp(dev.pd, &init);
	want(a.qp);
	a.mine = a.theirs = (struct peer_addr){ .qpn = a.qp->qp_num, .gid = dev.gid };
	peer_connect(&a, &o);
}

/* Half of them are cancelled before they sleep, as it comes. Two sleep at a time: one leads. */
static void cancel_sleepers(void *(*f)(void *))
{
	pthread_t t[2];
	void *end;

	want_eq(sem_init(&begun, 0, 0), 0);
	for (int i = 0; i < SLEEPERS; i++) {
		for (int k = 0; k < 2; k++)
			want_eq(pthread_create(&t[k], NULL, f, NULL), 0);
		for (int k = 0; k < 2; k++)
			sem_wait(&begun);
		for (int k = 0; k < 2; k++) {
			want_eq(pthread_cancel(t[k]), 0);
			want_eq(pthread_join(t[k], &end), 0);
			want(end == PTHREAD_CANCELED);
		}
	}
}

/* A message to itself: an event comes, and its completions. */
static void still_works(void)
{
	static uint8_t mem[256];
	struct ibv_mr *mr = ibv_reg_mr(dev.pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sg = { (uintptr_t)mem, 104, 0 };
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	want(mr);
	sg.lkey = mr->lkey;
	peer_recv(&a, 1, &sg, 1);
	want_eq(ibv_req_notify_cq(a.scq, 0), 0);
	sg.length = 64;
	wr.wr.ud.ah = peer_ah(&dev, &a.mine);
	wr.wr.ud.remote_qpn = a.mine.qpn;
	wr.wr.ud.remote_qkey = 0x11111111;
	want_eq(ibv_post_send(a.qp, &wr, &bad), 0);
	want_eq(ibv_get_cq_event(channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	want(peer_poll(a.scq, &wc, PATIENCE_MS));
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(ibv_dereg_mr(mr), 0);
}

static void sleepers_hold_nothing(int async)
{
	if (cases_sanitized())
		case_skip("AddressSanitizer fails itself when a cancelled thread is unwound");
	open_pair();
	cancel_sleepers(async ? takes_async : takes_events);
	for (int i = 0; i < 10; i++)
		still_works();
	want_eq(ibv_destroy_qp(a.qp), 0);
	want_eq(ibv_destroy_cq(a.scq), 0);
	want_eq(ibv_destroy_comp_channel(channel), 0);
}

static struct duo_answer sends_to_near(struct side *s, const struct duo_order *o)
{
	struct ibv_sge sg = { (uintptr_t)s->mem, o->len, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct duo_answer done = { 0 };

	want_eq(ibv_post_send(s->ep.qp, &wr, &bad), 0);
	done.found = peer_poll(s->ep.scq, &done.wc, PATIENCE_MS / 2);
	return done;
}

/* The engine's thread works again: it serves a peer while no thread of the program polls. */
static void engine_goes_on(int arg)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .cap = { 16, 16, 4, 4, 0 } } };
	struct ibv_sge sg;
	struct ibv_wc wc;

	(void)arg;
	if (cases_sanitized())
		case_skip("AddressSanitizer fails itself when a cancelled thread is unwound");
	duo_open(&duo, &o);
	sg = (struct ibv_sge){ (uintptr_t)duo.near.mem, 64, duo.near.mr->lkey };
	open_pair();
	cancel_sleepers(takes_events);
	for (uint64_t i = 0; i < 3; i++) {
		peer_recv(&duo.near.ep, i, &sg, 1);
		want(duo_do(&duo, sends_to_near, 0, 64, 0).found);
		want(peer_poll(duo.near.ep.rcq, &wc, PATIENCE_MS));
	}
	duo_close(&duo);
}

static const struct test_case cases[] = {
	CASE_ARG(work_ends_no_thread, 0),   CASE_ARG(work_ends_no_thread, 1),
	CASE(traced_work_ends_no_thread),   CASE(explained_failures_end_no_thread),
	CASE(datagrams_end_no_thread),	    CASE_ARG(sleepers_hold_nothing, 0),
	CASE_ARG(sleepers_hold_nothing, 1), CASE(engine_goes_on),
};

int main(void)
{
	return CASES_RUN(cases);
}
