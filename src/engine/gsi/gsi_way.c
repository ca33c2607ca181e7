// SPDX-License-Identifier: MIT
#include "engine/gsi/gsi_way.h"
#include <errno.h>
#include <stdlib.h>
#include "engine/gsi/gsi_say.h"
#include "engine/path.h"
#include "engine/tracing.h"
#include "link/fault.h"
#include "obs/explain.h"
#include "obs/verdict.h"
#include "wire/opcode.h"

enum { PKEY = 0xffff };

static struct seg seg_of(const struct piece *mad)
{
	return (struct seg){ .op = SVC_UD | OP_SEND_ONLY,
			     .pkey = PKEY,
			     .dqpn = GSI_QPN,
			     .sqpn = GSI_QPN,
			     .qkey = (uint32_t)CM_QKEY,
			     .npsn = 1,
			     .len = MAD_LEN,
			     .npieces = mad ? 1 : 0,
			     .pieces = mad };
}

/* --- out --- */

void gsi_way_begin(struct node *n)
{
	struct fault_config cfg;

	if (path_faults(&cfg) && fault_dice_make(&cfg, &n->mad_faults))
		n->mad_faults = NULL;
}

void gsi_way_end(struct node *n)
{
	free(n->mad_faults);
}

bool gsi_way_loses(const struct node *n)
{
	return n->mad_faults;
}

static void count(struct node *n, const union ibv_gid *own, enum counter packets,
		  enum counter bytes)
{
	unsigned int index;

	for (unsigned int i = 0; i < load_acquire(&n->n_devices); i++) { /* as port_wait.c */
		const struct device *d = n->devices[i];

		if (gid_table_find(d->gids, own, GID_V2, &index))
			continue;
		counters_inc(d->hca.counters, packets);
		counters_add(d->hca.counters, bytes, MAD_LEN);
		return;
	}
}

/* The trace sees it as it is before faults, as that of a queue pair does (path.c). */
static void left(struct node *n, const struct gsi_mad *m, const char *by, int err)
{
	const struct trace_ends ends = { m->from, m->to, GSI_QPN };
	const struct piece piece = { (uintptr_t)m->mad, MAD_LEN, 0 };
	const struct seg s = seg_of(&piece);

	if (!err)
		count(n, &m->from, COUNTER_PORT_XMIT_PACKETS, COUNTER_PORT_XMIT_DATA);
	if (tracing())
		trace_sent(&ends, by, &s,
			   !err		   ? "sent"
			   : err == EAGAIN ? "lost; reason: no room"
					   : "lost; reason: nobody is there",
			   trace_now());
}

int gsi_way_send(struct node *n, struct dest *d, const struct gsi_mad *m)
{
	const struct piece piece = { (uintptr_t)m->mad, MAD_LEN, 0 };
	const struct seg s = seg_of(&piece);
	const char *by = d->ops->name;
	struct dest *with = d;
	int err = n->mad_faults ? fault_wrap_with(d, n->mad_faults, &with) : 0;

	err = err ? err : dest_send(with, &s, NULL);
	with->ops->put(with);
	left(n, m, by, err);
	return err;
}

int gsi_way_say(struct node *n, int fd, const struct gsi_mad *m)
{
	struct dest *d;
	int err;

	if (n->mad_faults) {
		d = gsi_say_dest(fd, m);
		return d ? gsi_way_send(n, d, m) : EAGAIN;
	}
	err = gsi_say(fd, m);
	left(n, m, gsi_say_ops.name, err);
	return err;
}

/* --- in --- */

void gsi_way_came(struct node *n, const struct gsi_mad *m)
{
	count(n, &m->to, COUNTER_PORT_RCV_PACKETS, COUNTER_PORT_RCV_DATA);
}

void gsi_way_hears(struct gsi_hearing *h)
{
	if (!tracing())
		return;
	*h = (struct gsi_hearing){ trace_now(), explain_count() };
	verdict_say("handed to connection management");
}

void gsi_way_heard(struct node *n, const struct gsi_hearing *h, const struct gsi_mad *m)
{
	const struct trace_ends ends = { m->to, m->from, GSI_QPN };
	struct seg s = seg_of(NULL);

	if (!m->net) /* else the process that has read it has counted it */
		gsi_way_came(n, m);
	if (!tracing())
		return;
	s.data = m->mad;
	tracing_heard(&ends, &s, h->now, h->sentences);
}
