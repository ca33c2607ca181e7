// SPDX-License-Identifier: MIT
/* Ids that leave their channel: destroyed, or migrated to another. */
#include "rdmacm/id.h"
#include "util/uncancelled.h"

static void wait_for_acks(struct id *i, uint32_t fetched)
{
	int was = uncancelled_begin(); /* a cancelled thread would end with the lock */

	pthread_mutex_lock(&i->lock);
	while (i->acked < fetched)
		pthread_cond_wait(&i->all_acked, &i->lock);
	pthread_mutex_unlock(&i->lock);
	uncancelled_end(was);
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct id *i = to_id(id);
	uint32_t fetched = 0;

	softhca_cm()->id_destroy(i->cm, &fetched);
	if (id->event) {
		rdma_ack_cm_event(id->event);
		id->event = NULL;
	}
	wait_for_acks(i, fetched);
	groups_leave(i); /* late: an event of a join that was fetched meanwhile uses the group */
	softhca_cm()->id_release(i->cm);
	rdma_freeaddrinfo(i->answer);
	id_free(i);
	return 0;
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct id *i = to_id(id);
	struct rdma_event_channel *old = id->channel, *to = channel;
	bool was_sync = i->sync;
	uint32_t fetched = 0;
	int err;

	if (!channel && was_sync)
		return minus1_errno(EINVAL);
	if (!to)
		to = channel_for(i);
	if (!to)
		return -1;
	err = softhca_cm()->migrate(i->cm, ((struct channel *)to)->cm, &fetched);
	if (err) {
		if (!channel)
			rdma_destroy_event_channel(to);
		return minus1_errno(err);
	}
	i->sync = !channel;
	id->channel = to;
	if (was_sync && id->event) {
		rdma_ack_cm_event(id->event);
		id->event = NULL;
	}
	wait_for_acks(i, fetched);
	if (was_sync)
		rdma_destroy_event_channel(old);
	return 0;
}
