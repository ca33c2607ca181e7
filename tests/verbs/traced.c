// SPDX-License-Identifier: MIT
/* A few operations of each kind with known sizes, and a write that is refused: for
 * tests/run/trace.py, which counts their packets. The argument: thread or process, where the far
 * side is. */
#include <string.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { SENDS = 5, WRITES = 3, READS = 2, ADDS = 2, SEND = 100, WRITE = 5000, READ = 3000 };

static struct duo duo;

static void done(enum ibv_wc_status status)
{
	struct ibv_wc wc = duo_wc(&duo);

	want_eq(wc.status, status);
}

static void add(void)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, IBV_WR_ATOMIC_FETCH_AND_ADD, &sg, 8);

	want_eq(duo_post(&duo, &wr), 0);
	done(IBV_WC_SUCCESS);
}

static void refused(void)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 64);

	wr.wr.rdma.rkey ^= 1;
	want_eq(duo_post(&duo, &wr), 0);
	done(IBV_WC_REM_ACCESS_ERR);
}

int main(int argc, char **argv)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .mtu = IBV_MTU_1024 } };

	o.together = argc > 1 && !strcmp(argv[1], "thread");
	duo_open(&duo, &o);
	for (int i = 0; i < SENDS; i++) {
		duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = SEND });
		duo_send(&duo, IBV_WR_SEND, SEND);
		done(IBV_WC_SUCCESS);
		want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < WRITES; i++) {
		duo_send(&duo, IBV_WR_RDMA_WRITE, WRITE);
		done(IBV_WC_SUCCESS);
	}
	for (int i = 0; i < READS; i++) {
		duo_send(&duo, IBV_WR_RDMA_READ, READ);
		done(IBV_WC_SUCCESS);
	}
	for (int i = 0; i < ADDS; i++)
		add();
	refused();
	duo_close(&duo);
	return 0;
}
