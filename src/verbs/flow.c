// SPDX-License-Identifier: MIT
/* Flow rules and the counters that they feed. All of these calls are inline and come by the
 * table. */
#include "driver/dqp.h"
#include "hca/flow.h"
#include "hca/flow_counters.h"
#include "verbs/export.h"
#include "verbs/ops.h"

struct ibv_flow *ops_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	struct qp *dev = &to_dqp(qp)->dev->qp;
	struct ibv_flow *flow;
	int err = flow_create(dev->ctx->hca->flows, dev, attr, &flow);

	return err ? null_errno(err) : flow;
}

int ops_destroy_flow(struct ibv_flow *flow)
{
	return positive_errno(flow_destroy(flow));
}

struct ibv_counters *ops_create_counters(struct ibv_context *ib,
					 struct ibv_counters_init_attr *attr)
{
	struct flow_counters *c;
	int err = flow_counters_create(to_context(ib), attr, &c);

	return err ? null_errno(err) : &c->ib;
}

int ops_destroy_counters(struct ibv_counters *ib)
{
	return positive_errno(flow_counters_destroy((struct flow_counters *)ib));
}

int ops_attach_counters(struct ibv_counters *ib, struct ibv_counter_attach_attr *attr,
			struct ibv_flow *flow)
{
	return positive_errno(flow_counters_attach((struct flow_counters *)ib, attr, flow));
}

int ops_read_counters(struct ibv_counters *ib, uint64_t *values, uint32_t n, uint32_t flags)
{
	return positive_errno(flow_counters_read((struct flow_counters *)ib, values, n, flags));
}
