// SPDX-License-Identifier: MIT
/* What every MAD of this process meets on its way out, to a host or to a process of this one, and
 * on its way in from such a process: the faults of SOFTHCA_FAULT, the trace, the counters of its
 * port. All destinations of MADs count as one for faults. Any thread. */
#pragma once
#include "engine/gsi/gsi.h"

/* The node is made: are MADs under faults? Without memory they are not. */
void gsi_way_begin(struct node *n);
void gsi_way_end(struct node *n);

/* By @d, a network's, whose reference it takes over. */
int gsi_way_send(struct node *n, struct dest *d, const struct gsi_mad *m);
/* By the connection @fd of this host, which may be closed at once: with faults the MAD may leave
 * later, and its other end meets the end of the connection behind it. EAGAIN: no room, lost. */
int gsi_way_say(struct node *n, int fd, const struct gsi_mad *m);
/* Does this process lose messages on purpose? */
bool gsi_way_loses(const struct node *n);

/* @m has been read from a network. */
void gsi_way_came(struct node *n, const struct gsi_mad *m);
/* Around the work on a MAD that has come by a connection of this host. */
struct gsi_hearing {
	uint64_t now, sentences;
};
void gsi_way_hears(struct gsi_hearing *h);
void gsi_way_heard(struct node *n, const struct gsi_hearing *h, const struct gsi_mad *m);
