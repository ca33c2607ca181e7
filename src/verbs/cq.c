// SPDX-License-Identifier: MIT
/* Completion queues and completion channels. */
#include "driver/dcq.h"
#include "driver/events.h"
#include "engine/wait.h"
#include "verbs/export.h"
#include "verbs/ops.h"

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ib)
{
	struct comp_channel *ch;
	int err = comp_channel_create(to_context(ib), &ch);

	return err ? null_errno(err) : &ch->ib;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ib)
{
	return positive_errno(comp_channel_destroy((struct comp_channel *)ib));
}

struct ibv_cq_ex *ops_create_cq_ex(struct ibv_context *ib, struct ibv_cq_init_attr_ex *attr)
{
	struct dcq *cq;
	int err = dcq_create(to_context(ib), attr, &cq);

	return err ? null_errno(err) : &cq->ib;
}

/* For libmlx5. */
EXPORT struct ibv_cq_ex *softhca_create_cq(struct ibv_context *ib, struct ibv_cq_init_attr_ex *attr,
					   uint16_t cqe_size, bool padded)
{
	const struct dcq_form form = { cqe_size, padded };
	struct dcq *cq;
	int err = dcq_create_as(to_context(ib), attr, &form, &cq);

	return err ? null_errno(err) : &cq->ib;
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
	return positive_errno(dcq_modify(to_dcq(cq), attr));
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	return positive_errno(dcq_resize(to_dcq(cq), cqe));
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	return positive_errno(dcq_destroy(to_dcq(cq)));
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
	return minus1_errno(wait_async_event(to_context(ib), event));
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	events_ack_async(event);
}
