// SPDX-License-Identifier: MIT
/* Two processes that were started apart: without HOST the server, which listens on 127.0.0.1, with
 * it the client. Both get a connected RC endpoint and the socket that they met over. */
#pragma once
#include "verbs/peer.h"

struct meeting {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_comp_channel *channel; /* NULL: none was asked for */
	int fd;
	bool client;
};

/* @depth: work requests each way, of one SGE; @events: the CQ gets a channel and is armed. */
void meet(struct meeting *m, int port, bool client, unsigned int depth, bool events);
/* Registers @len bytes at @buf and tells the other side; theirs is in m->ep.theirs. */
struct ibv_mr *meet_memory(struct meeting *m, void *buf, size_t len);
void meet_end(struct meeting *m, struct ibv_mr *mr);

double seconds(void);
/* Sorts @n values; the one that @percent of them do not exceed. */
double percentile(double *values, size_t n, double percent);
