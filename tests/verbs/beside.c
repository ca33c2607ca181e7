// SPDX-License-Identifier: MIT
/* One thread posts and polls; others ask for the queue pair's attributes, change them, and take it
 * through SQD and back. All work completes. What several threads read and write of a struct ibv_qp
 * is for ThreadSanitizer to judge. */
#include <pthread.h>
#include <sched.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { ROUNDS = 300, LEN = 64 };

static struct duo duo;
static int stop; /* atomic */

static bool over(void)
{
	return __atomic_load_n(&stop, __ATOMIC_ACQUIRE);
}

static void *asks(void *arg)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)arg;
	while (!over()) {
		want_eq(ibv_query_qp(duo.near.ep.qp, &attr, IBV_QP_STATE, &init), 0);
		want(attr.qp_state == IBV_QPS_RTS || attr.qp_state == IBV_QPS_SQD);
		sched_yield();
	}
	return NULL;
}

/* What is posted in SQD goes out afterwards. */
static void *changes(void *arg)
{
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 12 };

	(void)arg;
	while (!over()) {
		want_eq(ibv_modify_qp(duo.near.ep.qp, &sqd, IBV_QP_STATE), 0);
		want_eq(ibv_modify_qp(duo.near.ep.qp, &rts, IBV_QP_STATE), 0);
		want_eq(ibv_modify_qp(duo.near.ep.qp, &rts, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER),
			0);
		sched_yield();
	}
	return NULL;
}

static void work_goes_on(int together)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC }, .together = together };
	void *(*const doings[])(void *) = { asks, changes };
	pthread_t t[2];

	duo_open(&duo, &o);
	for (int i = 0; i < 2; i++)
		want_eq(pthread_create(&t[i], NULL, doings[i], NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		duo_send(&duo, IBV_WR_RDMA_WRITE, LEN);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 2; i++)
		want_eq(pthread_join(t[i], NULL), 0);
	duo_close(&duo);
}

static const struct test_case cases[] = {
	CASE_ARG(work_goes_on, false),
	CASE_ARG(work_goes_on, true),
};

int main(void)
{
	return CASES_RUN(cases);
}
