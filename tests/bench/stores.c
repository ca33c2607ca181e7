// SPDX-License-Identifier: MIT
/* Rings that the program writes itself, both ends in one process. stores nop|send COUNT prints the
 * median in microseconds: of the store alone that rings for a WQE which does nothing; of a SEND of
 * 100 bytes from there to the completions at both ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/meet.h"
#include "mlx5dv/hand.h"

static double nop(void)
{
	const struct hand_op op = { MLX5_OPCODE_NOP, MLX5_WQE_CTRL_CQ_UPDATE, 0 };
	const void *wqe = write_wqe(&a, &op, NULL, 0);
	double begin = seconds(), took;

	announce(&a, wqe);
	took = seconds() - begin;
	take(&a);
	return took;
}

static double message(void)
{
	double begin;

	hand_recv(&b);
	begin = seconds();
	hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, 0);
	take(&b);
	take(&a);
	return seconds() - begin;
}

int main(int argc, char **argv)
{
	size_t n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	bool sends = n && !strcmp(argv[1], "send");
	double *took = calloc(n ? n : 1, sizeof(*took));

	if (!n || !took || (!sends && strcmp(argv[1], "nop")))
		die("usage: stores nop|send COUNT");
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (size_t i = 0; i < n; i++)
		took[i] = sends ? message() : nop();
	printf("%.3f us\n", percentile(took, n, 50) * 1e6);
	return 0;
}
