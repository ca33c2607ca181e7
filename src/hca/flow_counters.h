// SPDX-License-Identifier: MIT
/* Counters that flow rules feed: what ibv_create_counters() makes. Points (which value, at which
 * index) are attached before the first rule uses the set; rules have a reference.
 * Locking: points under @lock, a leaf; the sums are atomics, and so is the number of rules, since a
 * forked child, which must not wait for a lock, destroys rules too. */
#pragma once
#include "hca/device.h"

enum { FLOW_COUNTERS_POINTS = 32 };

struct flow_counters {
	struct ibv_counters ib; /* first */
	struct context *ctx;
	struct spin lock;
	uint32_t rules; /* flow rules that use this set; atomic */
	unsigned int n;
	struct {
		enum ibv_counter_description what;
		uint32_t index;
	} point[FLOW_COUNTERS_POINTS];
	uint64_t packets, bytes; /* atomics */
};

int flow_counters_create(struct context *ctx, const struct ibv_counters_init_attr *attr,
			 struct flow_counters **out);
int flow_counters_destroy(struct flow_counters *c); /* EBUSY while a rule uses it */
/* EBUSY: a rule uses the set already. EINVAL, ENOTSUP as ibv_attach_counters_point_flow(3). */
int flow_counters_attach(struct flow_counters *c, const struct ibv_counter_attach_attr *attr,
			 const struct ibv_flow *flow);
int flow_counters_read(struct flow_counters *c, uint64_t *values, uint32_t n, uint32_t flags);
void flow_counters_get(struct flow_counters *c); /* NULL is fine, as with put */
void flow_counters_put(struct flow_counters *c);
static inline void flow_counters_add(struct flow_counters *c, uint32_t bytes)
{
	fetch_add_relaxed(&c->packets, 1);
	fetch_add_relaxed(&c->bytes, bytes);
}
