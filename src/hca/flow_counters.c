// SPDX-License-Identifier: MIT
#include "hca/flow_counters.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "obs/explain.h"

int flow_counters_create(struct context *ctx, const struct ibv_counters_init_attr *attr,
			 struct flow_counters **out)
{
	struct flow_counters *c;
	int err = context_use(ctx, "ibv_create_counters");

	if (err)
		return err;
	if (attr->comp_mask)
		return refuse(EOPNOTSUPP,
			      "ibv_create_counters: comp_mask 0x%x, nothing is defined; pass 0",
			      attr->comp_mask);
	c = calloc(1, sizeof(*c));
	if (!c)
		return refuse(ENOMEM,
			      "ibv_create_counters: no memory; raise the limit (ulimit -v)");
	c->ib.context = &ctx->ib.context;
	c->ctx = ctx;
	spin_init(&c->lock);
	context_get(ctx);
	*out = c;
	return 0;
}

int flow_counters_destroy(struct flow_counters *c)
{
	uint32_t rules = load_acquire(&c->rules);

	if (rules)
		return refuse(EBUSY,
			      "ibv_destroy_counters: %u flow rules count here; ibv_destroy_flow "
			      "them first",
			      rules);
	context_put(c->ctx);
	free(c);
	return 0;
}

/* Under the lock. */
static int add_point(struct flow_counters *c, const struct ibv_counter_attach_attr *attr)
{
	if (load_relaxed(&c->rules))
		return refuse(EBUSY, "ibv_attach_counters_point_flow: a flow rule counts here "
				     "already; attach before ibv_create_flow");
	if (c->n == FLOW_COUNTERS_POINTS)
		return refuse(ENOMEM,
			      "ibv_attach_counters_point_flow: the counters have their %d points; "
			      "make further counters",
			      FLOW_COUNTERS_POINTS);
	c->point[c->n].what = attr->counter_desc;
	c->point[c->n++].index = attr->index;
	return 0;
}

int flow_counters_attach(struct flow_counters *c, const struct ibv_counter_attach_attr *attr,
			 const struct ibv_flow *flow)
{
	int err;

	if (attr->comp_mask)
		return refuse(EINVAL,
			      "ibv_attach_counters_point_flow: comp_mask 0x%x, nothing is "
			      "defined; pass 0",
			      attr->comp_mask);
	if (flow)
		return refuse(ENOTSUP, "ibv_attach_counters_point_flow: points are attached before "
				       "the rule is made; pass NULL and name the counters in an "
				       "IBV_FLOW_SPEC_ACTION_COUNT");
	if (attr->counter_desc != IBV_COUNTER_PACKETS && attr->counter_desc != IBV_COUNTER_BYTES)
		return refuse(ENOTSUP,
			      "ibv_attach_counters_point_flow: counter_desc %d; rules count "
			      "IBV_COUNTER_PACKETS and IBV_COUNTER_BYTES",
			      (int)attr->counter_desc);
	if (attr->index >= FLOW_COUNTERS_POINTS)
		return refuse(
			EINVAL,
			"ibv_attach_counters_point_flow: index %u is outside 0..%d; stay within",
			attr->index, FLOW_COUNTERS_POINTS - 1);
	spin_lock(&c->lock);
	err = add_point(c, attr);
	spin_unlock(&c->lock);
	return err;
}

int flow_counters_read(struct flow_counters *c, uint64_t *values, uint32_t n, uint32_t flags)
{
	int err = 0;

	if (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED)
		return refuse(EINVAL,
			      "ibv_read_counters: flags 0x%x, known is "
			      "IBV_READ_COUNTERS_ATTR_PREFER_CACHED; leave the rest out",
			      flags);
	spin_lock(&c->lock);
	for (unsigned int i = 0; i < c->n && !err; i++)
		if (c->point[i].index >= n)
			err = refuse(EINVAL,
				     "ibv_read_counters: ncounters %u, a point is attached at "
				     "index %u; pass room for it",
				     n, c->point[i].index);
	if (!err) {
		memset(values, 0, n * sizeof(*values));
		for (unsigned int i = 0; i < c->n; i++)
			values[c->point[i].index] += c->point[i].what == IBV_COUNTER_PACKETS
							     ? load_relaxed(&c->packets)
							     : load_relaxed(&c->bytes);
	}
	spin_unlock(&c->lock);
	return err;
}

void flow_counters_get(struct flow_counters *c)
{
	if (c)
		fetch_add_relaxed(&c->rules, 1);
}

void flow_counters_put(struct flow_counters *c)
{
	if (c)
		fetch_sub_acq_rel(&c->rules, 1);
}
