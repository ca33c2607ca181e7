// SPDX-License-Identifier: MIT
#include "engine/tracing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "link/trace.h"
#include "obs/explain.h"
#include "obs/pcapng.h"
#include "obs/verdict.h"
#include "wire/aeth.h"
#include "wire/cm_msg.h"
#include "wire/grh.h"
#include "wire/packet.h"

static bool on; /* set while the node is made */

bool tracing(void)
{
	return load_relaxed(&on);
}

void tracing_start(void)
{
	store_relaxed(&on, trace_begin(secure_getenv("SOFTHCA_TRACE")));
}

static void own_gid(struct eqp *e, unsigned int index, union ibv_gid *out)
{
	struct device *d = device_of(&e->q);
	struct gid_entry entry;

	memset(out, 0, sizeof(*out));
	if (!gid_table_get(d->gids, index, &entry))
		*out = entry.gid;
}

/* Where the QP sends: @to, or NULL, to where it is connected. */
static void ends_of(struct eqp *e, const struct av *to, struct trace_ends *out)
{
	const struct ibv_global_route *r = &e->q.qp.attr.ah_attr.grh;

	out->qpn = e->q.qp.qpn;
	out->remote = to ? to->dgid : r->dgid;
	own_gid(e, to ? to->sgid_index : r->sgid_index, &out->local);
}

int tracing_wrap(struct eqp *e, const struct av *to, struct dest *d, struct dest **out)
{
	struct trace_ends ends;
	int err;

	*out = d;
	if (!tracing())
		return 0;
	ends_of(e, to, &ends);
	err = trace_wrap(d, &ends, out);
	if (err)
		d->ops->put(d);
	return err;
}

void tracing_cast(struct eqp *e, const struct seg *s)
{
	struct trace_ends ends;

	ends_of(e, s->av, &ends);
	trace_sent(&ends, "multicast", s, "sent", trace_now());
}

/* By the GRH, when one came. */
static void ends_of_arrival(struct node *n, const struct seg *s, struct trace_ends *out)
{
	struct eqp *e = s->op == FRAME_OP ? NULL : node_qp(n, s->dqpn);
	struct grh g;

	*out = (struct trace_ends){ .qpn = s->dqpn };
	if (s->grh && !grh_parse(s->grh, &g)) {
		memcpy(out->remote.raw, g.sgid, 16);
		memcpy(out->local.raw, g.dgid, 16);
	} else if (e) {
		ends_of(e, NULL, out);
	}
}

/* The PSN of the last packet that was built, and the @ahead-th after what the QP expects. */
static const char *numbers(const struct tracing_arrival *a, uint32_t ahead, char *out, size_t n)
{
	if (a->op == FRAME_OP)
		*out = '\0';
	else if (!a->expects)
		snprintf(out, n, " PSN %u", a->last.psn);
	else if (a->last.carried || opcode_has(a->op, WIRE_RESPONSE))
		snprintf(out, n, " PSN %u, the oldest open is %u", a->last.psn, a->una);
	else
		snprintf(out, n, " PSN %u, expected %u", a->last.psn, psn_add(a->epsn, ahead));
	return out;
}

static void describe(const struct tracing_arrival *a, uint32_t ahead, const char *fate, char *out,
		     size_t n)
{
	const struct trace_frame *f = &a->last;
	char what[TRACE_MESSAGE], psn[48];

	snprintf(out, n, "QP 0x%x receives%s%s%s; verdict: %s%s", a->ends.qpn,
		 trace_message(&a->ends, f, what, sizeof(what)),
		 numbers(a, ahead, psn, sizeof(psn)), f->carried ? " (with the next packet)" : "",
		 fate, f->payload_lost ? "; the payload could not be read" : "");
}

/* What was said while the thread worked on the packet (obs/verdict.h, obs/explain.h). */
static void fate_of_packet(uint64_t sentences, char *out, size_t n)
{
	char why[EXPLAIN_TEXT];

	if (explain_count() != sentences && !explain_last(why, sizeof(why)))
		snprintf(out, n, "%s; reason: %s", verdict_said ? verdict_said : "refused", why);
	else
		snprintf(out, n, "%s", verdict_said ? verdict_said : "ok");
}

/* All packets of the segment are built before it is delivered, since its sender may use its memory
 * again then; the last waits for the verdict. */
void tracing_arrives(struct node *n, const struct seg *s, struct tracing_arrival *out)
{
	uint32_t count = trace_count(s);
	char comment[PCAPNG_COMMENT];

	out->now = trace_now();
	out->op = s->op;
	out->sentences = explain_count();
	ends_of_arrival(n, s, &out->ends);
	for (uint32_t k = 0; k < count; k++) {
		trace_build(s, k, TRACE_IN, &out->ends, &out->last);
		if (k == count - 1)
			break;
		describe(out, psn_diff(out->last.psn, s->psn),
			 out->last.carried ? "ok" : "a part, see its last packet", comment,
			 sizeof(comment));
		if (out->last.len)
			trace_put(&out->last, out->now, TRACE_IN, comment);
	}
	out->ahead = psn_diff(out->last.psn, s->psn);
	verdict_say(NULL);
}

void tracing_arrived(const struct tracing_arrival *a)
{
	char fate[PCAPNG_COMMENT - 128], comment[PCAPNG_COMMENT];

	fate_of_packet(a->sentences, fate, sizeof(fate));
	describe(a, a->ahead, fate, comment, sizeof(comment));
	if (a->last.len)
		trace_put(&a->last, a->now, TRACE_IN, comment);
}

void tracing_heard(const struct trace_ends *ends, const struct seg *s, uint64_t now,
		   uint64_t sentences)
{
	struct tracing_arrival a = {
		.now = now, .sentences = sentences, .ends = *ends, .op = s->op
	};

	trace_build(s, 0, TRACE_IN, ends, &a.last);
	tracing_arrived(&a);
}
