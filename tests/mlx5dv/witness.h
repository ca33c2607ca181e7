// SPDX-License-Identifier: MIT
/* Queue pairs that work while others of their process are given garbage: a thread sends messages
 * between two of this process (RC and UD) and to one of another process, by each operation, and
 * looks at every byte and completion. What is wrong ends the process. One in a process. */
#pragma once
#include "verbs/cases.h"

enum { WITNESS_QPS = 5, WITNESS_BYTES = 4096 };

/* What garbage may name. */
struct witness_names {
	uint32_t qpn[WITNESS_QPS], n;
	uint64_t va; /* of its memory, WITNESS_BYTES */
	uint32_t key; /* with all rights, of its own protection domain */
};

/* @fd: a socket to the other process, whose witness begins with false. */
void witness_begin(const struct peer_dev *dev, int fd, bool near, struct witness_names *out);
uint64_t witness_rounds(void); /* how many of its rounds were right */
void witness_goes_on(void); /* waits for two more, fails when they do not come */
void witness_end(void); /* the near one's end is the far one's, too */
/* Two queue pairs of @pd, made, connected, used and destroyed. */
void witness_anew(const struct peer_dev *dev, struct ibv_pd *pd);
