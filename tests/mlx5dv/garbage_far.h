// SPDX-License-Identifier: MIT
/* The other process: its queue pair is used by the verbs, and the peer of that one is given
 * garbage. */
#pragma once
#include "mlx5dv/plots.h"
#include "mlx5dv/witness.h"

enum far_op {
	FAR_MAKE, /* a queue pair of @type; the one before is destroyed */
	FAR_CONNECT, /* takes it through RESET and connects it to @to; posts receives */
	FAR_CHECK, /* nothing has changed that may not */
	FAR_QUIT,
};

/* The answer is the same with the number of the queue pair that was made in @to. */
struct far_order {
	enum far_op op;
	enum ibv_qp_type type; /* IBV_QPT_DRIVER: a DC target */
	bool shut; /* in the domain of PLOT_SHUT, and peers may only read */
	struct peer_addr to;
};

/* What both tell each other at first. */
struct far_names {
	struct plot_key plot[PLOTS];
	struct witness_names witness;
};

/* What each has. */
struct far_side {
	struct ibv_pd *pd[2]; /* that of the plots, and that of PLOT_SHUT */
	struct plots plots;
	struct far_names mine, theirs;
};

int far_main(int fd, void *arg); /* of peer_fork() */
/* This process' half of the beginning: plots and witness are made. */
void far_meet(int fd, const struct peer_dev *on, bool near, struct far_side *s);
struct peer_addr far_tell(int fd, struct far_order o);
