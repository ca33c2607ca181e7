// SPDX-License-Identifier: MIT
#include "engine/show.h"
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include "engine/node_state.h"
#include "engine/qp_table.h"
#include "engine/turn.h"
#include "obs/explain.h"
#include "transport/sent.h"
#include "util/clock.h"
#include "util/sealed.h"

enum {
	LATEST = 64, /* sends of the mean */
	LOOKS = 16, /* at a turn, between two yields */
	PATIENCE = 3000000, /* ns: for the turn of a QP */
	PATIENCE_ALL = 30000000, /* ns: for those of all */
};

/* What a QP has done may be read beside the thread that has its turn, which never frees it inside a
 * quiesce section: each word is whole, and of this moment or the one before. */
#define BESIDE __attribute__((no_sanitize("thread")))

BESIDE static uint32_t mean_length(const struct requester *r)
{
	uint32_t tail = *(const volatile uint32_t *)&r->tail, n = tail < LATEST ? tail : LATEST;
	uint64_t sum = 0;

	if (r->sent && n > r->mask + 1)
		n = r->mask + 1;
	if (!r->sent || !n)
		return 0;
	for (uint32_t i = 1; i <= n; i++)
		sum += r->sent[(tail - i) & r->mask].len;
	return (uint32_t)(sum / n);
}

BESIDE static void read_done(const struct tqp *q, struct show_qp *out)
{
	out->done = *(const volatile uint32_t *)&q->req.head;
	out->messages = *(const volatile uint32_t *)&q->rsp.msn;
	out->mean = mean_length(&q->req);
}

static void read_counts(struct tqp *q, struct show_qp *out)
{
	struct rq *rq = &q->qp.rq;

	out->sends = q->req.tail - q->req.head + (q->req.sent ? sent_posted(q) : 0);
	out->receives = q->qp.srq ? srq_posted(q->qp.srq) : rq->ring.cnt ? rq_posted(rq) : 0;
}

static enum show_wait sender_waits(const struct tqp *q, uint64_t now)
{
	const struct requester *r = &q->req;

	if (r->wait == WAIT_RNR)
		return SHOW_RNR;
	if (r->wait == WAIT_LOST)
		return SHOW_LOST;
	if (r->blocked)
		return SHOW_ROOM;
	if (r->pace.kbps && r->pace.at > now)
		return SHOW_RATE;
	return SHOW_ANSWER;
}

static enum show_wait waits(const struct tqp *q, const struct show_qp *s, uint64_t now)
{
	enum ibv_qp_state state = q->qp.state;

	if (state == IBV_QPS_ERR || state == IBV_QPS_SQE)
		return SHOW_ERROR;
	if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD)
		return SHOW_NOTHING;
	if (q->rnr_waiting)
		return SHOW_RECEIVE;
	if (s->sends)
		return sender_waits(q, now);
	return s->receives ? SHOW_NOTHING : SHOW_EMPTY;
}

static void read_way(const struct tqp *q, struct show_qp *out)
{
	const struct dest_net *net = link_ends(q->dest);

	out->peer = q->qp.service->connected ? q->qp.attr.dest_qp_num : 0;
	out->way = !q->dest ? SHOW_NOWHERE : net ? SHOW_NETWORK : SHOW_HOST;
	if (net)
		memcpy(out->remote, net->remote.raw, sizeof(out->remote));
}

/* Through a network congestion control keeps when the peer was last heard; within a host nothing
 * does. Frames that wait for a receive have no time: 0. */
static uint64_t begin(const struct tqp *q, enum show_wait wait)
{
	if (wait == SHOW_RNR)
		return q->waits.at;
	if (wait == SHOW_RECEIVE)
		return q->refused.at;
	if ((wait == SHOW_ANSWER || wait == SHOW_LOST) && link_may_congest(q->dest))
		return q->req.cc.at;
	return 0;
}

static void read_in_turn(struct tqp *q, struct show_qp *out, uint64_t now)
{
	uint64_t since;

	read_counts(q, out);
	read_done(q, out);
	read_way(q, out);
	out->state = (uint8_t)q->qp.state;
	out->wait = (uint8_t)waits(q, out, now);
	since = begin(q, out->wait);
	if (since && since < now)
		out->since = now - since;
	if (out->wait == SHOW_ERROR && explain_text(q->cause, out->text, sizeof(out->text)))
		out->text[0] = '\0';
}

/* A busy QP's turn is free for some ns at a time. A thread that is in a long copy, or has no core,
 * is not waited for: many such QPs shall not keep the engine. */
static bool take(struct eqp *e, uint64_t *patience)
{
	uint64_t begin, end;

	if (turn_try(e))
		return true;
	begin = clock_now();
	end = begin + (*patience < PATIENCE ? *patience : PATIENCE);
	for (unsigned int i = 1; clock_now() < end; i++) {
		if (turn_try(e))
			return true;
		if (i % LOOKS)
			cpu_relax();
		else
			sched_yield();
	}
	*patience -= end - begin;
	return false;
}

static void read_qp(struct eqp *e, struct show_qp *out, uint64_t now, uint64_t *patience)
{
	out->qpn = e->q.qp.qpn;
	out->type = (uint8_t)e->q.qp.service->type;
	out->wait = SHOW_BUSY;
	if (!take(e, patience)) {
		out->state = (uint8_t)__atomic_load_n(&e->q.qp.state, __ATOMIC_RELAXED);
		read_done(&e->q, out);
		return;
	}
	read_in_turn(&e->q, out, now);
	turn_leave(e);
}

/* Fills @out, at most @room; NULL: only counts. Inside a quiesce section. */
static uint32_t walk(struct node *n, struct show_qp *out, uint32_t room, uint64_t now)
{
	uint64_t patience = PATIENCE_ALL;
	uint32_t count = 0, at = 0;
	struct eqp *e;

	while ((!out || count < room) && (e = qp_table_next(n, &at))) {
		if (out)
			read_qp(e, &out[count], now, &patience);
		count++;
	}
	return count;
}

int show_make(void *arg, int *fd)
{
	struct node *n = arg;
	struct show_head *head;
	uint32_t room;
	size_t bytes;
	int err;

	quiesce_enter();
	room = walk(n, NULL, 0, 0);
	quiesce_exit();
	bytes = (sizeof(*head) + room * sizeof(struct show_qp) + 4095) & ~(size_t)4095;
	err = sealed_make("softhca-shown", bytes, SEALED_READONLY, fd, (void **)&head);
	if (err)
		return err;
	head->version = SHOW_VERSION;
	head->entry = sizeof(struct show_qp);
	head->now = clock_now();
	quiesce_enter();
	head->count = walk(n, (struct show_qp *)(head + 1), room, head->now);
	quiesce_exit();
	sealed_unmap(head, bytes);
	return 0;
}
