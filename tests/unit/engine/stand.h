// SPDX-License-Identifier: MIT
/* A node that has no name on its host, no thread and no descriptor, and QPs on it. Whatever a QP or
 * the node sends to stand->peer is counted; the PSNs are kept in their order. */
#pragma once
#include <stdlib.h>
#include "engine/node_state.h"
#include "peers/host_state.h"
#include "test.h"
#include "wire/opcode.h"

enum { STAND_SENT = 64, STAND_SLOT = 3 };

struct stand {
	struct node n;
	struct host host;
	struct host_page page;
	struct block block; /* numbers of STAND_SLOT */
	struct hca hca;
	struct counters counters;
	struct context ctx;
	struct tqp_env env;
	struct dest peer;
	struct dest_net net;
	int refuse; /* what the peer answers */
	unsigned int sent;
	uint32_t psn[STAND_SENT];
	uint8_t syndrome[STAND_SENT];
};

static struct stand *stand;

static inline int stand_take(struct dest *d, const struct seg *s, struct waiter *w)
{
	(void)d;
	(void)w;
	if (stand->refuse)
		return stand->refuse;
	if (s->op == OP_GROUNDS)
		return 0; /* in front of the answer */
	assert_true(stand->sent < STAND_SENT);
	stand->syndrome[stand->sent] = s->syndrome;
	stand->psn[stand->sent++] = s->psn;
	return 0;
}

static inline void stand_cancel(struct dest *d, struct waiter *w)
{
	(void)d;
	(void)w;
}

static inline void stand_put(struct dest *d)
{
	d->refs--;
}

static inline void stand_open(void)
{
	static const struct link_ops ops = {
		.name = "test", .send = stand_take, .cancel = stand_cancel, .put = stand_put
	};
	struct stand *s = aligned_alloc(64, (sizeof(*s) + 63) & ~(size_t)63);

	memset(s, 0, sizeof(*s));
	s->host.page = &s->page;
	s->host.bell = s->host.epoll = -1;
	loopback_init(&s->host.own, &s->host);
	s->n.host = &s->host;
	s->n.kick_fd = s->n.epoll_fd = -1;
	s->n.next_timer = s->n.next_watch = UINT64_MAX;
	wheel_init(&s->n.wheel, 0);
	wheel_init(&s->n.watches, 0);
	timer_init(&s->n.ports.timer, NULL);
	mutex_init(&s->n.lock);
	mutex_init(&s->n.grow_lock);
	check_eq(bitmap_init(&s->block.used, FIRST_INDEX, NUMBER_INDEXES - FIRST_INDEX), 0);
	s->n.blocks[STAND_SLOT] = &s->block;
	s->hca.counters = &s->counters;
	s->ctx.hca = &s->hca;
	s->peer = (struct dest){ .ops = &ops, .refs = 1, .same_host = true };
	stand = s;
}

static inline void stand_close(void)
{
	check_eq(stand->peer.refs, 1);
	loopback_fini(&stand->host.own);
	bitmap_fini(&stand->block.used);
	mutex_destroy(&stand->n.lock);
	mutex_destroy(&stand->n.grow_lock);
	free(stand);
}

/* A QP of type RC in RESET, which answers each request by its number alone. */
static inline struct eqp *stand_qp(void)
{
	struct eqp *e = aligned_alloc(64, (sizeof(*e) + 63) & ~(size_t)63);

	memset(e, 0, sizeof(*e));
	e->node = &stand->n;
	e->met = true;
	e->q.env = &stand->env;
	e->q.qp.ctx = &stand->ctx;
	e->q.qp.service = &services[SERVICE_RC];
	e->q.qp.state = IBV_QPS_RESET;
	e->q.deadline = e->q.watch_at = e->timer_at = TQP_NEVER;
	list_init(&e->timer.node);
	list_init(&e->watch.node);
	e->inbox_end = &e->inbox;
	spin_init(&e->inbox_lock);
	return e;
}

/* The same, with an ACK that is due to the peer. */
static inline struct eqp *stand_owing_qp(void)
{
	struct eqp *e = stand_qp();

	e->q.qp.state = IBV_QPS_RTS;
	e->q.dest = &stand->peer;
	e->q.ack_due = true;
	return e;
}

/* A request from the peer. */
static inline struct seg stand_request(uint32_t dqpn, uint32_t psn)
{
	return (struct seg){ .op = OP_WRITE_ONLY,
			     .flags = SEG_SQPN,
			     .pkey = 0xffff,
			     .dqpn = dqpn,
			     .psn = psn,
			     .npsn = 1,
			     .from = &stand->peer };
}
