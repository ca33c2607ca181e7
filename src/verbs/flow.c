// SPDX-License-Identifier: MIT
/* Flow rules and the counters that they feed. All of these calls are inline and come by the
 * table. */
#include "driver/dqp.h"
#include "hca/alive.h"
#include "hca/flow.h"
#include "hca/flow_counters.h"
#include "verbs/export.h"
#include "verbs/ops.h"

struct ibv_flow *ops_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	int err = alive_check(ALIVE_QP, qp, "ibv_create_flow");
	struct ibv_flow *flow;
	struct qp *dev;

	if (err)
		return null_errno(err);
	dev = &to_dqp(qp)->dev->qp;
	err = flow_create(dev->ctx->hca->flows, dev, attr, &flow);
	return err ? null_errno(err) : alive_made(ALIVE_FLOW, flow);
}

int ops_destroy_flow(struct ibv_flow *flow)
{
	struct alive_end end;
	int err = alive_take(ALIVE_FLOW, flow, "ibv_destroy_flow", &end);

	return positive_errno(err ? err : alive_left(&end, flow_destroy(flow)));
}

struct ibv_counters *ops_create_counters(struct ibv_context *ib,
					 struct ibv_counters_init_attr *attr)
{
	struct flow_counters *c;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_create_counters");

	if (!err)
		err = flow_counters_create(to_context(ib), attr, &c);
	return err ? null_errno(err) : alive_made(ALIVE_COUNTERS, &c->ib);
}

int ops_destroy_counters(struct ibv_counters *ib)
{
	struct alive_end end;
	int err = alive_take(ALIVE_COUNTERS, ib, "ibv_destroy_counters", &end);

	return positive_errno(
		err ? err : alive_left(&end, flow_counters_destroy((struct flow_counters *)ib)));
}

int ops_attach_counters(struct ibv_counters *ib, struct ibv_counter_attach_attr *attr,
			struct ibv_flow *flow)
{
	static const char call[] = "ibv_attach_counters_point_flow";
	int err = alive_check(ALIVE_COUNTERS, ib, call);

	if (!err)
		err = alive_of(ib->context, ALIVE_FLOW, flow, call);
	if (!err)
		err = flow_counters_attach((struct flow_counters *)ib, attr, flow);
	return positive_errno(err);
}

int ops_read_counters(struct ibv_counters *ib, uint64_t *values, uint32_t n, uint32_t flags)
{
	int err = alive_check(ALIVE_COUNTERS, ib, "ibv_read_counters");

	if (!err)
		err = flow_counters_read((struct flow_counters *)ib, values, n, flags);
	return positive_errno(err);
}
