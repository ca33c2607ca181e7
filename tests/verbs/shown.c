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

/* More QPs than one slot of the host has numbers for. The last is connected to itself. */
static void many(const struct peer_opts *o)
{
	enum { SLOT_BITS = 14 };
	struct peer_ep *ep = &duo.near.ep;
	uint32_t first;

	peer_open(&duo.near.dev);
	peer_ep_create(&duo.near.dev, o, ep);
	first = ep->qp->qp_num;
	while (ep->qp->qp_num >> SLOT_BITS == first >> SLOT_BITS) {
		struct ibv_qp_init_attr init = { .send_cq = ep->scq,
						 .recv_cq = ep->rcq,
						 .qp_type = o->type,
						 .cap = { 1, 1, 1, 1, 0 } };

		ep->qp = ibv_create_qp(duo.near.dev.pd, &init);
		if (!ep->qp)
			die("ibv_create_qp");
	}
	ep->mine.qpn = ep->qp->qp_num;
	ep->theirs = ep->mine;
	peer_connect(ep, o);
}

int main(int argc, char **argv)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .rnr = 7 } };
	const char *what = argc > 1 ? argv[1] : "";
	bool alone = !strcmp(what, "many");
	char c;

	if (alone)
		many(&o.qp);
	else
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
	if (!alone)
		duo_close(&duo);
	return 0;
}
