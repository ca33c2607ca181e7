// SPDX-License-Identifier: MIT
/* Atomics of several processes on one word: none is lost, none is done twice. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { PROCESSES = 4, DEPTH = 16 };

struct task {
	unsigned int count; /* operations of each process */
	bool compare_swap;
};

static const struct peer_opts opts = { .type = IBV_QPT_RC, .cap = { DEPTH, 1, 1, 1, 0 } };

struct worker {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint64_t result[DEPTH], sum;
};

static void post(struct worker *w, unsigned int slot, uint64_t compare, uint64_t swap_add, bool cas)
{
	struct ibv_sge sg = { (uintptr_t)&w->result[slot], 8, w->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = slot,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.opcode = cas ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = w->ep.theirs.va;
	wr.wr.atomic.rkey = w->ep.theirs.rkey;
	wr.wr.atomic.compare_add = cas ? compare : swap_add;
	wr.wr.atomic.swap = swap_add;
	want_eq(ibv_post_send(w->ep.qp, &wr, &bad), 0);
}

/* Adds 1 as often as told, DEPTH at a time; sums up what stood there before. */
static void add(struct worker *w, unsigned int count)
{
	unsigned int posted = 0, done = 0;
	struct ibv_wc wc;

	for (; posted < DEPTH; posted++)
		post(w, posted, 0, 1, false);
	for (; done < count; done++) {
		peer_poll_ok(w->ep.scq, &wc);
		w->sum += w->result[wc.wr_id];
		if (posted++ < count)
			post(w, (unsigned int)wc.wr_id, 0, 1, false);
	}
}

/* Increments by compare and swap, until that has worked as often as told. */
static void swap(struct worker *w, unsigned int count)
{
	uint64_t guess = 0;
	struct ibv_wc wc;

	for (unsigned int done = 0; done < count;) {
		post(w, 0, guess, guess + 1, true);
		peer_poll_ok(w->ep.scq, &wc);
		if (w->result[0] == guess) {
			w->sum += guess++;
			done++;
		} else {
			guess = w->result[0];
		}
	}
}

static int work(int fd, void *arg)
{
	const struct task *t = arg;
	struct worker w = { .sum = 0 };
	uint64_t unused;

	peer_open(&w.dev);
	w.mr = ibv_reg_mr(w.dev.pd, w.result, sizeof(w.result), IBV_ACCESS_LOCAL_WRITE);
	want(w.mr);
	peer_ep_create(&w.dev, &opts, &w.ep);
	peer_ep_swap(fd, &w.ep);
	peer_connect(&w.ep, &opts);
	peer_sync(fd); /* all are connected */
	if (t->compare_swap)
		swap(&w, t->count);
	else
		add(&w, t->count);
	peer_swap(fd, &w.sum, &unused, sizeof(w.sum));
	peer_ep_destroy(&w.ep);
	want_eq(ibv_dereg_mr(w.mr), 0);
	peer_close(&w.dev);
	return 0;
}

/* Each value is found by exactly one operation: the word ends at their number, and what they found
 * sums up to 0 + 1 + … + (number - 1). */
static void add_up(struct task t)
{
	static uint64_t word[3]; /* the middle one; its neighbours stay */
	uint64_t sum = 0, theirs, zero = 0, all = (uint64_t)t.count * PROCESSES;
	struct peer_ep ep[PROCESSES];
	pid_t pid[PROCESSES];
	int fd[PROCESSES];
	struct peer_dev dev;
	struct ibv_mr *mr;

	memset(word, 0, sizeof(word));
	for (int i = 0; i < PROCESSES; i++)
		pid[i] = peer_fork(work, &t, &fd[i]);
	peer_open(&dev);
	mr = ibv_reg_mr(dev.pd, word, sizeof(word),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	want(mr);
	for (int i = 0; i < PROCESSES; i++) {
		peer_ep_create(&dev, &opts, &ep[i]);
		ep[i].mine.va = (uintptr_t)&word[1];
		ep[i].mine.rkey = mr->rkey;
		peer_ep_swap(fd[i], &ep[i]);
		peer_connect(&ep[i], &opts);
	}
	for (int i = 0; i < PROCESSES; i++)
		peer_sync(fd[i]);
	for (int i = 0; i < PROCESSES; i++) {
		peer_swap(fd[i], &zero, &theirs, sizeof(theirs));
		sum += theirs;
		want_eq(peer_wait(pid[i]), 0);
		close(fd[i]);
	}
	want_eq(word[1], all);
	want_eq(sum, all * (all - 1) / 2);
	want(!word[0] && !word[2]);
	for (int i = 0; i < PROCESSES; i++)
		peer_ep_destroy(&ep[i]);
	want_eq(ibv_dereg_mr(mr), 0);
	peer_close(&dev);
}

static void fetch_adds_add_up(int arg)
{
	(void)arg;
	add_up((struct task){ .count = 100000 });
}

static void compare_swaps_add_up(int arg)
{
	(void)arg;
	add_up((struct task){ .count = cases_full() ? 20000 : 2000, .compare_swap = true });
}

/* The address of a zero-based region is aligned, and its memory is not: no processor does that. */
static void a_skewed_region_is_refused(int arg)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC };
	struct ibv_send_wr wr;
	struct ibv_sge sg;
	static struct duo d;

	(void)arg;
	duo_open(&d, &o);
	wr = duo_wr(&d, IBV_WR_ATOMIC_FETCH_AND_ADD, &sg, 8);
	wr.wr.atomic.remote_addr = 0;
	wr.wr.atomic.compare_add = 1;
	wr.wr.atomic.rkey =
		(uint32_t)duo_tell(&d,
				   (struct duo_order){
					   .op = DUO_REG,
					   .off = 4,
					   .len = 64,
					   .id = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
						 IBV_ACCESS_ZERO_BASED,
				   })
			.value;
	want_eq(duo_post(&d, &wr), 0);
	want_eq(duo_wc(&d).status, IBV_WC_REM_INV_REQ_ERR);
	duo_close(&d);
}

static const struct test_case cases[] = {
	CASE(fetch_adds_add_up),
	CASE(compare_swaps_add_up),
	CASE(a_skewed_region_is_refused),
};

int main(void)
{
	return CASES_RUN(cases);
}
