// SPDX-License-Identifier: MIT
/* A peer that is killed or stopped at any point of a transfer, which goes both ways: the
 * survivor does not crash, does not hang, its memory outside of regions stays, and every work
 * request completes. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/cases.h"

enum {
	GUARD = 4096, /* before and behind the region, never to be touched */
	REGION = 128 << 10,
	PIECES = 8, /* work requests outstanding, each on a part of its own */
	PIECE = REGION / PIECES,
	FOREIGN = 77, /* seed of the guards' pattern */
};

static bool mapped; /* the regions are memory that both can map */

#define RECEIVE UINT64_MAX /* the wr_id of receives; sends are counted */

/* One end: half of the parts are the peer's target, the other half its own sources and sinks. */
struct end {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint8_t *area;
	uint64_t random;
	unsigned int posted, done, receives;
};

static const struct peer_opts opts = { .type = IBV_QPT_RC,
				       .cap = { PIECES, 64, 1, 1, 0 },
				       .timeout = 8,
				       .retry = 1,
				       .min_rnr_timer = 1 };

static uint64_t draw(struct end *e, uint64_t below)
{
	e->random = e->random * 6364136223846793005 + 1442695040888963407;
	return (e->random >> 33) % below;
}

static void open_end(struct end *e, uint64_t seed)
{
	*e = (struct end){ .random = seed };
	e->area = peer_memory(REGION + 2 * GUARD, mapped);
	pattern_fill(e->area, REGION + 2 * GUARD, FOREIGN, 0);
	peer_open(&e->dev);
}

static void register_region(struct end *e)
{
	e->mr = ibv_reg_mr(e->dev.pd, e->area + GUARD, REGION,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	want(e->mr);
}

static void receive(struct end *e)
{
	struct ibv_sge sg = { (uintptr_t)e->area + GUARD, PIECE, e->mr->lkey };

	peer_recv(&e->ep, RECEIVE, &sg, 1);
	e->receives++;
}

static void connect_end(struct end *e, int fd)
{
	register_region(e);
	peer_ep_create(&e->dev, &opts, &e->ep);
	e->ep.mine.va = (uintptr_t)e->area + GUARD;
	e->ep.mine.rkey = e->mr->rkey;
	peer_ep_swap(fd, &e->ep);
	peer_connect(&e->ep, &opts);
	e->posted = e->done = e->receives = 0;
	while (e->receives < 32)
		receive(e);
	peer_sync(fd);
}

static void post(struct end *e)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_RDMA_WRITE_WITH_IMM,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };
	uint64_t off = (e->posted % PIECES) * (uint64_t)PIECE;
	struct ibv_sge sg = { (uintptr_t)e->area + GUARD + off, 0, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = e->posted,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = ops[draw(e, 5)],
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	sg.length = (uint32_t)(draw(e, 2) ? draw(e, 200) : draw(e, PIECE)) + 1;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sg.length = 8;
		wr.wr.atomic.remote_addr = e->ep.theirs.va + off;
		wr.wr.atomic.rkey = e->ep.theirs.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = e->ep.theirs.va + off;
		wr.wr.rdma.rkey = e->ep.theirs.rkey;
	}
	want_eq(ibv_post_send(e->ep.qp, &wr, &bad), 0);
	e->posted++;
}

/* Takes what has completed; the first status that is neither success nor a flush into *why. */
static bool reap(struct end *e, enum ibv_wc_status *why)
{
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(e->ep.scq, 8, wc);
	bool fine = true;

	want(n >= 0);
	for (int i = 0; i < n; i++) {
		if (wc[i].wr_id == RECEIVE)
			e->receives--;
		else
			e->done++;
		if (wc[i].status == IBV_WC_SUCCESS)
			continue;
		fine = false;
		if (wc[i].status != IBV_WC_WR_FLUSH_ERR)
			*why = wc[i].status;
	}
	return fine;
}

/* One step of a stream of random work; false once something has failed. */
static bool step(struct end *e, enum ibv_wc_status *why)
{
	while (e->posted - e->done < PIECES)
		post(e);
	if (!reap(e, why))
		return false;
	while (e->receives < 32)
		receive(e);
	return true;
}

static int other(int fd, void *arg)
{
	enum ibv_wc_status why = IBV_WC_SUCCESS;
	struct end e;

	open_end(&e, *(uint64_t *)arg);
	connect_end(&e, fd);
	while (step(&e, &why))
		;
	_exit(0); /* the survivor has closed */
}

static void guards_untouched(const struct end *e)
{
	want_eq(pattern_check(e->area, GUARD, FOREIGN, 0), GUARD);
	want_eq(pattern_check(e->area + GUARD + REGION, GUARD, FOREIGN, GUARD + REGION), GUARD);
}

/* Every work request of both queues completes; the cause is that nobody answers. */
static void everything_completes(struct end *e)
{
	enum ibv_wc_status why = IBV_WC_SUCCESS;
	struct ibv_qp_attr to_err = { .qp_state = IBV_QPS_ERR };

	while (step(e, &why))
		;
	while (e->done < e->posted)
		reap(e, &why);
	want_eq(why, IBV_WC_RETRY_EXC_ERR);
	want_eq(ibv_modify_qp(e->ep.qp, &to_err, IBV_QP_STATE), 0);
	while (e->receives)
		reap(e, &why);
}

static void close_qp(struct end *e)
{
	peer_ep_destroy(&e->ep);
	want_eq(ibv_dereg_mr(e->mr), 0);
}

static void run_a_while(struct end *e, uint64_t steps)
{
	enum ibv_wc_status why = IBV_WC_SUCCESS;

	for (uint64_t i = 0; i < steps; i++)
		want(step(e, &why));
}

/* After its death nobody writes to what was registered, nor to what was never. */
static void one_death(struct end *e, uint64_t seed)
{
	pid_t pid;
	int fd;

	pid = peer_fork(other, &seed, &fd);
	connect_end(e, fd);
	run_a_while(e, draw(e, 4) ? draw(e, 3000) : draw(e, 30));
	kill(pid, SIGKILL);
	everything_completes(e);
	want_eq(peer_wait(pid), 128 + SIGKILL);
	close(fd);
	close_qp(e);
	pattern_fill(e->area + GUARD, REGION, FOREIGN, GUARD);
	guards_untouched(e);
}

static void killed_at_any_point(int first)
{
	unsigned int rounds = cases_full() ? 250 : 50;
	struct end e;

	open_end(&e, (uint64_t)first);
	for (unsigned int i = 0; i < rounds; i++)
		one_death(&e, (uint64_t)first * 1000 + i);
	want_eq(pattern_check(e.area, REGION + 2 * GUARD, FOREIGN, 0), REGION + 2 * GUARD);
	peer_close(&e.dev);
}

/* Deregistration does not wait for a peer that does not run. SIGALRM ends the case if it does. */
static void stopped_peer_hangs_no_dereg(int arg)
{
	unsigned int rounds = cases_full() ? 200 : 20;

	(void)arg;
	for (unsigned int i = 0; i < rounds; i++) {
		uint64_t seed = 5000 + i;
		struct end e;
		pid_t pid;
		int fd, status;

		pid = peer_fork(other, &seed, &fd);
		open_end(&e, seed);
		connect_end(&e, fd);
		run_a_while(&e, draw(&e, 500));
		kill(pid, SIGSTOP);
		want_eq(waitpid(pid, &status, WUNTRACED), pid);
		alarm(60);
		peer_ep_destroy(&e.ep);
		want_eq(ibv_dereg_mr(e.mr), 0);
		alarm(0);
		kill(pid, SIGCONT);
		want_eq(peer_wait(pid), 0); /* its work fails: nobody answers */
		/* A copy in which it was stopped comes now, as the line said that was printed. */
		guards_untouched(&e);
		close(fd);
		peer_close(&e.dev);
	}
}

/* Stopped and continued again and again: nothing fails, since shm has no ordinary timeouts. */
static void stopped_and_continued(int arg)
{
	uint64_t seed = 31;
	struct end e;
	pid_t pid;
	int fd, status;

	(void)arg;
	pid = peer_fork(other, &seed, &fd);
	open_end(&e, seed);
	connect_end(&e, fd);
	for (int i = 0; i < (cases_full() ? 2000 : 100); i++) {
		run_a_while(&e, draw(&e, 300));
		kill(pid, SIGSTOP);
		want_eq(waitpid(pid, &status, WUNTRACED), pid);
		run_a_while(&e, draw(&e, 100));
		kill(pid, SIGCONT);
	}
	kill(pid, SIGKILL);
	everything_completes(&e);
	peer_wait(pid);
	close(fd);
	close_qp(&e);
	guards_untouched(&e);
	peer_close(&e.dev);
}

static const struct peer_opts datagrams = { .type = IBV_QPT_UD, .cap = { PIECES, 1, 1, 1, 0 } };

static void meet_by_datagrams(struct end *e, int fd)
{
	open_end(e, 1);
	register_region(e);
	peer_ep_create(&e->dev, &datagrams, &e->ep);
	peer_ep_swap(fd, &e->ep);
	peer_connect(&e->ep, &datagrams);
	peer_sync(fd);
}

static int hearer(int fd, void *arg)
{
	struct end e;

	(void)arg;
	meet_by_datagrams(&e, fd);
	peer_sync(fd); /* is killed here */
	return 0;
}

static void datagram(struct end *e, struct ibv_ah *ah)
{
	struct ibv_sge sg = { (uintptr_t)e->area + GUARD, 1024, e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = e->ep.theirs.qpn;
	wr.wr.ud.remote_qkey = 0x11111111;
	want_eq(ibv_post_send(e->ep.qp, &wr, &bad), 0);
}

/* More than a ring holds, so that some wait when the death is known; and some that begin then. */
static void datagrams_to_the_dead_complete(int arg)
{
	unsigned int posted = 0, done = 0;
	struct ibv_wc wc;
	struct ibv_ah *ah;
	struct end e;
	pid_t pid;
	int fd;

	(void)arg;
	pid = peer_fork(hearer, NULL, &fd);
	meet_by_datagrams(&e, fd);
	ah = peer_ah(&e.dev, &e.ep.theirs);
	datagram(&e, ah);
	peer_poll_ok(e.ep.scq, &wc);
	kill(pid, SIGKILL);
	while (done < 10000) {
		while (posted - done < PIECES)
			datagram(&e, ah), posted++;
		peer_poll_ok(e.ep.scq, &wc);
		done++;
	}
	want_eq(peer_wait(pid), 128 + SIGKILL);
	want_eq(ibv_destroy_ah(ah), 0);
	close(fd);
	close_qp(&e);
	peer_close(&e.dev);
}

static const struct test_case cases[] = {
	CASE_ARG(killed_at_any_point, 1),     CASE_ARG(killed_at_any_point, 2),
	CASE_ARG(killed_at_any_point, 3),     CASE_ARG(killed_at_any_point, 4),
	CASE(stopped_peer_hangs_no_dereg),    CASE(stopped_and_continued),
	CASE(datagrams_to_the_dead_complete),
};

int main(int argc, char **argv)
{
	mapped = argc > 1 && !strcmp(argv[1], "mapped");
	return CASES_RUN(cases);
}
