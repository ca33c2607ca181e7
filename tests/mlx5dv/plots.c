// SPDX-License-Identifier: MIT
#include "mlx5dv/plots.h"
#include <sys/mman.h>

enum { PAGE = 4096, STEP = PLOT_BYTES + PAGE, ALL = PLOTS * STEP + PAGE, SEED = 0x9107 };
enum { REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

uint8_t *plots_at(const struct plots *p, enum plot i)
{
	return p->all + PAGE + (size_t)i * STEP;
}

static const int rights[PLOTS] = {
	[PLOT_OPEN] = IBV_ACCESS_LOCAL_WRITE | REMOTE,
	[PLOT_READ_ONLY] = IBV_ACCESS_REMOTE_READ,
	[PLOT_LOCAL] = IBV_ACCESS_LOCAL_WRITE,
	[PLOT_STALE] = IBV_ACCESS_LOCAL_WRITE | REMOTE,
	[PLOT_SHUT] = IBV_ACCESS_LOCAL_WRITE | REMOTE,
	[PLOT_RECEIVES] = IBV_ACCESS_LOCAL_WRITE,
};

void plots_make(struct plots *p, struct ibv_pd *pd, struct ibv_pd *other)
{
	uint8_t *around =
		mmap(NULL, ALL + 2UL * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	want(around != MAP_FAILED);
	p->all = around + PAGE;
	want(!mprotect(p->all, ALL, PROT_READ | PROT_WRITE));
	pattern_fill(p->all, ALL, SEED, 0);
	for (int i = 0; i < PLOTS; i++) {
		struct ibv_mr *mr = ibv_reg_mr(i == PLOT_SHUT ? other : pd, plots_at(p, i),
					       PLOT_BYTES, rights[i]);

		want(mr);
		want_eq(mr->lkey, mr->rkey);
		p->key[i] = (struct plot_key){ (uintptr_t)plots_at(p, i), mr->rkey };
		if (i == PLOT_STALE)
			want_eq(ibv_dereg_mr(mr), 0);
	}
}

static void kept(const struct plots *p, size_t from, size_t to)
{
	size_t same = pattern_check_told(p->all + from, to - from, SEED, from);

	if (same < to - from)
		fail("byte %zu of the plots has changed: %zd from the start of plot %zu",
		     from + same, (ssize_t)((from + same) % STEP) - PAGE, (from + same) / STEP);
}

void plots_want_kept(const struct plots *p, unsigned int free)
{
	for (size_t i = 0; i < PLOTS; i++)
		kept(p, i * STEP, i * STEP + (free & 1U << i ? PAGE : STEP));
	kept(p, (size_t)PLOTS * STEP, ALL);
}
