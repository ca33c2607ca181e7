// SPDX-License-Identifier: MIT
/* Channels: beginning and end. */
#include <stdlib.h>
#include "rdmacm/id.h"

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *c;
	int err = opened_any();

	if (err)
		return null_errno(err);
	c = calloc(1, sizeof(*c));
	if (!c)
		return null_errno(ENOMEM);
	err = softhca_cm()->channel_create(&c->cm, &c->ch.fd);
	if (err) {
		free(c);
		return null_errno(err);
	}
	return &c->ch;
}

struct rdma_event_channel *channel_for(const struct id *i)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	if (ch)
		((struct channel *)ch)->own = i;
	return ch;
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct channel *c = (struct channel *)channel;

	if (!c)
		return;
	softhca_cm()->channel_destroy(c->cm);
	free(c);
}
