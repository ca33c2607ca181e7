// SPDX-License-Identifier: MIT
#include "engine/gsi/gsi.h"
#include <errno.h>
#include <string.h>
#include "engine/gsi/gsi_names.h"
#include "engine/gsi/gsi_way.h"
#include "engine/links.h"
#include "engine/listeners.h"
#include "net/gid.h"
#include "obs/explain.h"
#include "obs/verdict.h"
#include "util/allowance.h"
#include "wire/grh.h"
#include "wire/opcode.h"
#include "wire/packet.h"

enum {
	PARTITION = 0x7fff, /* without the bit of full members */
	MTU = 256,
	NOBODY_LISTENS = 8, /* REJ */
	NOT_SUPPORTED = 1, /* SIDR_REP */
	ANSWERS_A_SECOND = 1000, /* without state, of a process */
	GID_TEXT = 64,
	PORT_BITS = 48, /* of a service id: those that name a port space and a port */
};

/* --- out --- */

static struct link_path path_of(const struct gsi_mad *m)
{
	return (struct link_path){ .net = { m->from, m->to },
				   .ifindex = m->ifindex,
				   .mtu = MTU,
				   .lqpn = GSI_QPN,
				   .rqpn = GSI_QPN };
}

int gsi_send(struct node *n, const struct gsi_mad *m, bool *softhca)
{
	const struct link_path path = path_of(m);
	struct dest *d;
	int err = links_dest(n, &path, &d);

	if (err)
		return err;
	if (softhca)
		*softhca = dest_abilities(d) != 0;
	return gsi_way_send(n, d, m);
}

bool gsi_knock(struct node *n, const struct gsi_mad *m, bool wake)
{
	const struct link_path path = path_of(m);
	bool softhca = false;
	struct dest *d;

	if (!links_dest(n, &path, &d)) {
		softhca = dest_abilities(d) != 0;
		d->ops->put(d);
	}
	if (wake || !softhca)
		links_knock(n, &path);
	return softhca;
}

int gsi_returns_fd(struct node *n)
{
	return links_returns_fd(n);
}

bool gsi_returned(struct node *n, struct gsi_mad *out, int *error)
{
	struct link_return r;
	struct pkt p;

	while (links_returned(n, &r)) {
		if (!r.error || wire_parse(r.packet, r.len, &p) || p.dqpn != GSI_QPN ||
		    p.payload_len != MAD_LEN)
			continue;
		*out = (struct gsi_mad){ .magic = GSI_MAGIC,
					 .net = 1,
					 .ifindex = r.ifindex,
					 .from = r.net.local,
					 .to = r.net.remote };
		memcpy(out->mad, p.payload, MAD_LEN);
		*error = r.error;
		return true;
	}
	return false;
}

void gsi_listen(const struct hca *hca)
{
	listeners_hold(container_of((struct hca *)hca, struct device, hca));
}

/* --- answers without state --- */

bool gsi_may_answer(void)
{
	static struct allowance answers;
	static uint64_t dropped;

	if (allowance_take(&answers, ANSWERS_A_SECOND))
		return true;
	if (explain_due(fetch_add_relaxed(&dropped, 1) + 1))
		reason("connection management: more than %d requests a second want an answer, and "
		       "%lu in all got none; look with softhca trace who sends them",
		       ANSWERS_A_SECOND, (unsigned long)load_relaxed(&dropped));
	return false;
}

/* What a host says of a port on which nobody listens, and of a connection that it does not know. */
static void answer(struct node *n, const struct gsi_mad *m, const struct cm_msg *q)
{
	struct gsi_mad out = { .net = 1, .ifindex = m->ifindex, .from = m->to, .to = m->from };
	struct cm_msg a = { .tid = q->tid, .remote_id = q->local_id };

	switch (q->kind) {
	case CM_REQ:
		a.kind = CM_REJ;
		a.reason = NOBODY_LISTENS;
		break;
	case CM_SIDR_REQ:
		a.kind = CM_SIDR_REP;
		a.local_id = q->local_id;
		a.reason = NOT_SUPPORTED;
		break;
	case CM_DREQ:
		a.kind = CM_DREP;
		a.local_id = q->remote_id;
		break;
	default:
		verdict_say("dropped, its process has ended");
		return;
	}
	if (gsi_may_answer() && !cm_build(&a, out.mad))
		gsi_send(n, &out, NULL);
}

/* --- in --- */

static int address(const struct seg *s, struct gsi_mad *out)
{
	struct grh g;

	if (!s->grh || grh_parse(s->grh, &g))
		return EBADMSG;
	memcpy(out->from.raw, g.sgid, 16);
	memcpy(out->to.raw, g.dgid, 16);
	return grh_gid_is_group(g.sgid) || grh_gid_is_group(g.dgid) ? EBADMSG : 0;
}

/* To the process that the message is for. */
static int pass(const struct cm_msg *m, const struct gsi_mad *mad)
{
	uint32_t ps = (uint32_t)(m->service_id >> 16);

	switch (m->kind) {
	case CM_REQ:
	case CM_SIDR_REQ:
		if (m->service_id >> PORT_BITS)
			return ECONNREFUSED; /* another service */
		return gsi_port_say(ps, (uint16_t)m->service_id, &mad->to, mad, sizeof(*mad));
	case CM_SIDR_REP:
		return gsi_process_say(gsi_slot(m->local_id), mad, sizeof(*mad));
	default:
		return gsi_process_say(gsi_slot(m->remote_id), mad, sizeof(*mad));
	}
}

/* A process that is stopped, or that reads slower than others send. The sender says it again. */
static void no_room(const struct gsi_mad *mad)
{
	static uint64_t times;
	uint64_t n = fetch_add_relaxed(&times, 1) + 1;
	char from[GID_TEXT];

	verdict_say("dropped, its process has no room");
	if (!explain_due(n))
		return;
	gid_text(&mad->from, from, sizeof(from));
	reason("connection management: a message from %s is dropped, the %luth that this process "
	       "could not hand over: the process that it is for has no room; is that one stopped, "
	       "or its machine overloaded?",
	       from, (unsigned long)n);
}

static void hand_over(struct node *n, const struct gsi_mad *mad, const struct cm_msg *m)
{
	int err = pass(m, mad);

	if (!err) {
		verdict_say("handed to connection management");
	} else if (err == ECONNREFUSED) {
		verdict_say("no process takes it");
		answer(n, mad, m);
	} else {
		no_room(mad);
	}
}

/* @mad: its addresses, as far as they are known. */
static void no_mad(const struct gsi_mad *mad)
{
	static uint64_t times;
	uint64_t n = fetch_add_relaxed(&times, 1) + 1;
	char from[GID_TEXT];

	verdict_say("dropped, no MAD of connection management");
	if (!explain_due(n))
		return;
	gid_text(&mad->from, from, sizeof(from));
	reason("connection management: a packet from %s to QP 1 is dropped, the %luth of this "
	       "process: by its operation, Q_Key, length, addresses or header it is no message of "
	       "connection management; look with softhca trace what it is",
	       from, (unsigned long)n);
}

void gsi_packet(struct node_link *from, const struct seg *s)
{
	struct gsi_mad mad = { .magic = GSI_MAGIC, .net = 1 };
	struct cm_msg m;
	int err = address(s, &mad);

	if (err || s->dqpn != GSI_QPN || s->op != (SVC_UD | OP_SEND_ONLY) ||
	    s->qkey != (uint32_t)CM_QKEY || s->len != MAD_LEN || !s->data) {
		no_mad(&mad);
		return;
	}
	if ((s->pkey & PARTITION) != PARTITION) {
		verdict_say("dropped, of another partition");
		return;
	}
	mad.ifindex = s->ifindex;
	memcpy(mad.mad, s->data, MAD_LEN);
	if (cm_parse(mad.mad, MAD_LEN, &m)) {
		no_mad(&mad);
		return;
	}
	gsi_way_came(from->node, &mad);
	hand_over(from->node, &mad, &m);
}
