// SPDX-License-Identifier: MIT
/* Objects that are left behind, for tests/run/leaks.py. The arguments say how the program ends:
 * "close": it closes the device first; "fork": it has a child that exits, too; "clean": it leaves
 * none. */
#include <string.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/peer.h"

static char memory[64];

__attribute__((noinline)) struct ibv_mr *make_region(struct ibv_pd *pd);
struct ibv_mr *make_region(struct ibv_pd *pd)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);

	if (!mr)
		die("ibv_reg_mr");
	return mr; /* not a tail call: mr was looked at */
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct peer_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr;

	peer_open(&dev);
	cq = ibv_create_cq(dev.ctx, 1, NULL, NULL, 0);
	if (!cq || ibv_destroy_cq(cq))
		die("ibv_create_cq");
	mr = make_region(dev.pd);
	if (!strcmp(how, "clean")) {
		ibv_dereg_mr(mr);
		peer_close(&dev);
	} else if (!strcmp(how, "close")) {
		ibv_close_device(dev.ctx);
	} else if (!strcmp(how, "fork")) {
		if (!fork())
			exit(0);
		wait(NULL);
	}
	return 0;
}
