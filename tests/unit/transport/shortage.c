// SPDX-License-Identifier: MIT
/* The responder has no memory for what it answers READs and atomics from: the peer is told to ask
 * again, and nothing ends but what may ask no more. */
#include "obs/explain.h"
#include "pair.h"

static unsigned int shortages; /* how many times that memory is still refused */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

/* In place of the C library's (meson.build). */
void *__wrap_calloc(size_t n, size_t size)
{
	if (!shortages || n * size != sizeof(struct responder_reads))
		return __real_calloc(n, size);
	shortages--;
	return NULL;
}

static const struct net_config *const nets[] = { &pair_lossy, &pair_host };

static const struct {
	uint8_t work, request;
} questions[] = {
	{ MLX5_OPCODE_RDMA_READ, OP_READ_REQUEST },
	{ MLX5_OPCODE_ATOMIC_FA, OP_FETCH_ADD },
};

/* On one host too: nobody tells that there is memory again. */
static void asks_again(const struct net_config *net, uint8_t work, uint8_t request)
{
	struct pair *p = pair_open(net, &rig_rc);
	struct rig_wr w = pair_remote(p, work, 0, 8);
	uint8_t there[8];

	memcpy(there, p->b->mem + 0x8000, 8);
	shortages = 2;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	check_eq(shortages, 0);
	pair_good(p->a, false);
	check_mem(p->a->mem, there, 8);
	check_eq(pair_count(p, p->b, request), 3);
	check(p->rig.net.now >= 2 * aeth_rnr_ns(1));
	check_eq(p->a->q.qp.state, IBV_QPS_RTS);
	check_eq(p->b->q.qp.state, IBV_QPS_RTS);
	pair_close(p);
}

TEST(a_shortage_of_the_responder_s_is_waited_for)
{
	for (size_t n = 0; n < sizeof(nets) / sizeof(nets[0]); n++)
		for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
			asks_again(nets[n], questions[i].work, questions[i].request);
}

TEST(who_may_ask_once_is_told_of_the_shortage)
{
	struct rig_attr attr = rig_rc;
	char text[EXPLAIN_TEXT];

	attr.rnr_retry = 0;
	struct pair *p = pair_open(&pair_lossy, &attr);
	struct rig_wr w = pair_remote(p, MLX5_OPCODE_RDMA_READ, 0, 8);

	shortages = 1;
	rig_post(p->a, &w);
	rig_run(&p->rig);
	pair_bad(p->a, false, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR, VENDOR_RNR_RETRY);
	check_eq(explain_last(text, sizeof(text)), 0);
	check(strstr(text, "had no room for the answer at 1 tries (rnr_retry 0)"));
	check(strstr(text, "there is no memory for it"));
	check_eq(p->b->q.qp.state, IBV_QPS_RTS);
	pair_close(p);
}

RUN_TESTS(unit_test(a_shortage_of_the_responder_s_is_waited_for),
	  unit_test(who_may_ask_once_is_told_of_the_shortage))
