// SPDX-License-Identifier: MIT
/* Queue pairs that wait, each for something else, for tests/run/ps.py: the argument says which. The
 * program prints a line when they do, and ends with its standard input. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

static struct duo duo;

/* A send to a QP without a receive. */
static void rnr(void)
{
	duo_send(&duo, IBV_WR_SEND, 100);
}

/* Five writes are done, and three receives wait. */
static void idle(void)
{
	for (int i = 0; i < 5; i++) {
		duo_send(&duo, IBV_WR_RDMA_WRITE, 1000);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < 3; i++)
		duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64 });
}

/* A refused write. */
static void failed(void)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 64);

	wr.wr.rdma.rkey ^= 1;
	want_eq(duo_post(&duo, &wr), 0);
	want_eq(duo_wc(&duo).status, IBV_WC_REM_ACCESS_ERR);
}

int main(int argc, char **argv)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .rnr = 7 } };
	const char *what = argc > 1 ? argv[1] : "";
	char c;

	duo_open(&duo, &o);
	if (!strcmp(what, "rnr"))
		rnr();
	else if (!strcmp(what, "idle"))
		idle();
	else if (!strcmp(what, "failed"))
		failed();
	printf("0x%x 0x%x\n", duo.near.ep.qp->qp_num, duo.near.ep.theirs.qpn);
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		continue;
	duo_close(&duo);
	return 0;
}
