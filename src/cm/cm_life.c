// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cm/cm_arrive.h"
#include "cm/cm_call.h"
#include "cm/cm_event.h"
#include "cm/cm_id.h"
#include "cm/cm_port.h"
#include "cm/cm_removal.h"
#include "cm/cm_talk.h"
#include "cm/cm_watch.h"
#include "engine/node.h"
#include "obs/explain.h"
#include "obs/leaks.h"
#include "util/clock.h"
#include "util/fork.h"

enum { LID_OF_GROUPS = 0xc000 };

/* A message that waits for others to be answered will have no other moment. */
static bool parts(const struct cm_id *id)
{
	return id->way.net && (!id->gone || id->delayed);
}

void cm_call_farewell(void)
{
	struct timespec until;
	struct list *pos;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 1;
	if (mutex_timedlock(&cm.lock, &until))
		return;
	if (cm.epoch && fork_is_ours(cm.epoch))
		list_for_each(pos, &cm.ids)
		{
			struct cm_id *id = container_of(pos, struct cm_id, node);

			if (parts(id))
				cm_talk_farewell(id);
		}
	mutex_unlock(&cm.lock);
}

int cm_call_channel_create(struct cm_channel **out, int *fd)
{
	int err = cm_start();

	if (err)
		return err;
	mutex_lock(&cm.lock);
	err = cm_arrive_begin();
	cm_removal_begin();
	node_at_exit(cm_call_farewell);
	mutex_unlock(&cm.lock);
	return err ? err : cm_channel_create(out, fd);
}

/* The program has the id from now on. */
static void seen(struct cm_id *id)
{
	if (!id->leak)
		id->leak = leaks_made(NULL, "rdma_cm_id", NULL);
}

int cm_call_id_create(struct cm_channel *ch, void *owner, uint32_t ps, int qp_type,
		      struct cm_id **out)
{
	int err = ENOMEM;

	if (!fork_is_ours(ch->epoch))
		return refuse(EIO,
			      "rdma_create_id: the channel is of a parent process; make a new one");
	mutex_lock(&cm.lock);
	err = cm_id_new(ch, ps, qp_type, out);
	if (!err) {
		(*out)->owner = owner;
		(*out)->afonly = false;
		seen(*out);
	}
	mutex_unlock(&cm.lock);
	return err;
}

/* --- the end --- */

/* The program gives @id up; what is queued for it has gone. */
static void finish(struct cm_id *id)
{
	struct cm_out out;
	bool lasts;

	cm_joins_free(id);
	cm_port_free(id);
	id->phase = PHASE_IDLE;
	id->gone = true;
	id->channel = NULL;
	lasts = cm_fsm_destroy(&id->fsm, clock_now(), &out);
	if (lasts || out.send || !list_empty(&id->flight))
		cm_talk(id, &out); /* frees it, or time does */
	else
		cm_id_free(id);
}

/* What is queued for @id goes, with the requests that nobody will fetch. */
static void drop_events(struct cm_id *id)
{
	struct list gone, *pos, *tmp;

	list_init(&gone);
	cm_event_purge(id, NULL, &gone);
	list_for_each_safe(pos, tmp, &gone)
	{
		struct cm_event *e = container_of(pos, struct cm_event, node);

		if (e->news.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			id->pending--;
			finish(e->news.id);
		}
		free(e);
	}
}

int cm_call_id_destroy(struct cm_id *id, uint32_t *fetched)
{
	*fetched = 0;
	if (cm_enter(id, "rdma_destroy_id"))
		return 0; /* of a parent process: there is nothing to end here */
	drop_events(id);
	*fetched = id->fetched;
	id->kept = true;
	leaks_gone(id->leak);
	finish(id);
	cm_leave();
	return 0;
}

void cm_call_id_release(struct cm_id *id)
{
	mutex_lock(&cm.lock);
	if (cm_ours(id)) {
		id->kept = false;
		if (id->over)
			free(id);
	}
	mutex_unlock(&cm.lock);
}

/* The peer is told, as by Linux; the id stays the program's, which hears no more of it. */
static void lose_channel(struct cm_id *id)
{
	struct cm_out out;

	id->channel = NULL;
	if (id->phase == PHASE_LISTEN)
		id->phase = PHASE_BOUND;
	if (id->fsm.state == CM_IDLE)
		return; /* it has begun nothing, and may do so on another channel */
	id->muted = true;
	cm_fsm_destroy(&id->fsm, clock_now(), &out);
	cm_talk(id, &out);
}

void cm_call_channel_destroy(struct cm_channel *ch)
{
	struct list *pos, *tmp;

	if (!fork_is_ours(ch->epoch)) {
		close(ch->fd);
		free(ch);
		return;
	}
	mutex_lock(&cm.lock);
	list_for_each_safe(pos, tmp, &cm.ids)
	{
		struct cm_id *id = container_of(pos, struct cm_id, node);

		if (id->channel != ch || id->gone)
			continue;
		drop_events(id);
		tmp = cm.ids.next; /* requests may have gone: from the start */
		lose_channel(id);
		pos = &cm.ids;
	}
	cm_channel_destroy(ch);
	mutex_unlock(&cm.lock);
}

/* --- small things --- */

int cm_call_set_owner(struct cm_id *id, void *owner, struct cm_channel *ch)
{
	int err = cm_enter(id, "rdma_get_cm_event");

	if (err)
		return err;
	id->owner = owner;
	seen(id);
	if (ch)
		cm_event_move(id, ch);
	cm_leave();
	return 0;
}

int cm_call_migrate(struct cm_id *id, struct cm_channel *to, uint32_t *fetched)
{
	int err = cm_enter(id, "rdma_migrate_id");

	if (err)
		return err;
	cm_event_move(id, to);
	*fetched = id->fetched;
	cm_leave();
	return 0;
}

int cm_call_write_event(struct cm_id *id, int event, int status, uint64_t arg)
{
	struct cm_event *e;
	int err = cm_enter(id, "rdma_write_cm_event");

	if (err)
		return err;
	e = cm_event_new(id, event, status);
	if (e) {
		e->news.arg = arg;
		cm_event_queue(e);
	}
	cm_leave();
	return e ? 0 : refuse_memory("rdma_write_cm_event", sizeof(*e));
}

/* The id of a question for a UD queue pair knows where it came from, and no route, as in Linux. */
static bool has_route(const struct cm_id *id)
{
	if (id->phase == PHASE_CONNECT)
		return !id->fsm.udp || id->fsm.active;
	return id->phase == PHASE_ROUTE;
}

int cm_call_view(struct cm_id *id, struct cm_view *out)
{
	int err = cm_enter(id, "rdma_get_cm_event");

	if (err)
		return err;
	*out = (struct cm_view){ .src = id->src,
				 .dst = id->dst,
				 .bound = id->way.hca,
				 .sgid = id->way.sgid,
				 .dgid = id->way.dgid,
				 .sgid_index = id->way.sgid_index,
				 .hop_limit = id->way.hop_limit,
				 .tclass = id->way.tclass,
				 .mtu = id->way.mtu,
				 .flow_label = id->way.flow_label,
				 .packet_life = id->way.ack_timeout ? id->way.ack_timeout - 1 : 0,
				 .rate = id->way.rate ? id->way.rate : IBV_RATE_100_GBPS,
				 .sl = id->way.sl,
				 .mlid = LID_OF_GROUPS,
				 .routed = has_route(id),
				 .remote_ece_vendor = id->peer.vendor_id,
				 .remote_ece_options = id->peer.modifier };
	if (id->way.hca)
		snprintf(out->device, sizeof(out->device), "%s", id->way.hca->name);
	cm_leave();
	return 0;
}
