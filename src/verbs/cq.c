// SPDX-License-Identifier: MIT
/* Completion queues and completion channels. */
#include "driver/dcq.h"
#include "driver/events.h"
#include "engine/wait.h"
#include "hca/alive.h"
#include "verbs/export.h"
#include "verbs/ops.h"

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ib)
{
	struct comp_channel *ch;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_create_comp_channel");

	if (!err)
		err = comp_channel_create(to_context(ib), &ch);
	return err ? null_errno(err) : alive_made(ALIVE_CHANNEL, &ch->ib);
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ib)
{
	struct alive_end end;
	int err = alive_take(ALIVE_CHANNEL, ib, "ibv_destroy_comp_channel", &end);

	return positive_errno(
		err ? err : alive_left(&end, comp_channel_destroy((struct comp_channel *)ib)));
}

static struct ibv_cq_ex *create(struct ibv_context *ib, struct ibv_cq_init_attr_ex *attr,
				const struct dcq_form *form)
{
	static const char call[] = "ibv_create_cq";
	struct dcq *cq;
	int err = alive_check(ALIVE_CONTEXT, ib, call);

	if (!err)
		err = alive_of(ib, ALIVE_CHANNEL, attr->channel, call);
	if (!err && (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD))
		err = alive_of(ib, ALIVE_PD, attr->parent_domain, call);
	if (!err)
		err = dcq_create(to_context(ib), attr, form, &cq);
	return err ? null_errno(err) : alive_made(ALIVE_CQ, &cq->ib);
}

struct ibv_cq_ex *ops_create_cq_ex(struct ibv_context *ib, struct ibv_cq_init_attr_ex *attr)
{
	static const struct dcq_form plain;

	return create(ib, attr, &plain);
}

/* For libmlx5. */
EXPORT struct ibv_cq_ex *softhca_create_cq(struct ibv_context *ib, struct ibv_cq_init_attr_ex *attr,
					   const struct dcq_form *form)
{
	return create(ib, attr, form);
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *ib, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
	};

	return (struct ibv_cq *)ops_create_cq_ex(ib, &attr);
}

int ops_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	int err = alive_check(ALIVE_CQ, cq, "ibv_modify_cq");

	return positive_errno(err ? err : dcq_modify(to_dcq(cq), attr));
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	int err = alive_check(ALIVE_CQ, cq, "ibv_resize_cq");

	return positive_errno(err ? err : dcq_resize(to_dcq(cq), cqe));
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct alive_end end;
	int err = alive_take(ALIVE_CQ, cq, "ibv_destroy_cq", &end);

	return positive_errno(err ? err : alive_left(&end, dcq_destroy(to_dcq(cq))));
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	int err = wait_cq_event((struct comp_channel *)channel, cq);

	if (!err)
		*cq_context = (*cq)->cq_context;
	return minus1_errno(err);
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (nevents)
		events_ack_cq(cq, nevents);
}

EXPORT int ibv_get_async_event(struct ibv_context *ib, struct ibv_async_event *event)
{
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_get_async_event");

	return minus1_errno(err ? err : wait_async_event(to_context(ib), event));
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	events_ack_async(event);
}
