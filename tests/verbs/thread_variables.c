// SPDX-License-Identifier: MIT
/* A program with more variables of its threads (__thread; threadprivate in Fortran) than the stacks
 * of the library's own threads have bytes: glibc takes them out of each thread's stack. */
#include "verbs/cases.h"
#include "verbs/duo.h"

static __thread volatile char variables[1 << 20];

static void the_device_opens(int arg)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .cap = { 16, 16, 4, 4, 0 } },
			      .together = true };
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sg;
	struct ibv_wc wc;
	struct duo duo;

	(void)arg;
	variables[sizeof(variables) - 1] = 1;
	duo_open(&duo, &o);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 64);
	want_eq(ibv_post_send(duo.near.ep.qp, &wr, &bad), 0);
	peer_poll_ok(duo.near.ep.scq, &wc);
	duo_close(&duo);
}

static const struct test_case cases[] = { CASE(the_device_opens) };

int main(void)
{
	return CASES_RUN(cases);
}
