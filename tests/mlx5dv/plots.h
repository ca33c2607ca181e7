// SPDX-License-Identifier: MIT
/* The memory of a process in plots: some that keys of a protection domain may change, and others
 * that no key may change, with canaries around each. */
#pragma once
#include "verbs/cases.h"

enum plot {
	PLOT_OPEN, /* all rights */
	PLOT_READ_ONLY, /* remote reads alone */
	PLOT_LOCAL, /* local writes, nothing remote */
	PLOT_STALE, /* its region was deregistered */
	PLOT_SHUT, /* all rights, in another domain */
	PLOT_RECEIVES, /* as PLOT_LOCAL */
	PLOTS
};

enum { PLOT_BYTES = 8192 };

/* What one process tells another of a plot. lkey and rkey are the same number. */
struct plot_key {
	uint64_t va;
	uint32_t key;
};

struct plots {
	uint8_t *
		all; /* canary, plot, canary, plot, ..., canary; pages without rights around them */
	struct plot_key key[PLOTS];
};

void plots_make(struct plots *p, struct ibv_pd *pd, struct ibv_pd *other);
uint8_t *plots_at(const struct plots *p, enum plot i);
/* Fails with the place when anything has changed, but for the plots whose bits are in @free. */
void plots_want_kept(const struct plots *p, unsigned int free);
