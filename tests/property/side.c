// SPDX-License-Identifier: MIT
/* The episodes of a side. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "property/side.h"

enum { MET, CONNECTED, DRAINED, COMPARED, PHASES };

static void lock_boxes(struct side *s)
{
	pthread_mutex_lock(&s->pr->events_lock);
	pthread_mutex_lock(&s->sbox->lock);
	if (s->rbox != s->sbox)
		pthread_mutex_lock(&s->rbox->lock);
}

static void unlock_boxes(struct side *s)
{
	if (s->rbox != s->sbox)
		pthread_mutex_unlock(&s->rbox->lock);
	pthread_mutex_unlock(&s->sbox->lock);
	pthread_mutex_unlock(&s->pr->events_lock);
}

/* --- moves --- */

void side_to(struct side *s, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = { .qp_state = to };

	domain_to(s, to);
	must_eq(s, ibv_modify_qp(s->qp, &a, IBV_QP_STATE), 0);
}

static void end_life(struct side *s)
{
	lock_boxes(s);
	atomic_fetch_add(&s->life, 1);
	s->over = true;
	unlock_boxes(s);
}

void side_reset(struct side *s)
{
	side_to(s, IBV_QPS_RESET);
	end_life(s);
}

void side_destroy(struct side *s)
{
	domain_destroy(s);
	frame_end(s);
	must_eq(s, ibv_destroy_qp(s->qp), 0);
	end_life(s);
	s->qp = NULL;
	atomic_store(&s->qpn, 0);
}

/* --- an episode --- */

static void begin(struct side *s)
{
	struct seat *seat = &board->seat[s->link][s->s];

	lock_boxes(s);
	view_make(&s->v, s->pr->p, s->link, s->ep, s->s);
	atomic_fetch_add(&s->life, 1);
	s->over = s->sqd = false;
	s->moved = s->ending = s->failed = s->rfailed = false;
	s->want_ops = s->want_recvs = 0;
	s->posted = s->retired = s->rposted = s->rdone = s->delivered = 0;
	s->next_message = 0;
	s->word = 0;
	memset(s->signaled, 0, sizeof(s->signaled));
	for (unsigned int i = 0; i < 32; i++)
		s->async[i] = 0;
	seat->words = 0;
	seat->word[0] = 0;
	unlock_boxes(s);
	if (s->qp && s->v.mine->fresh)
		side_destroy(s);
	if (!s->qp)
		connect_create(s);
	s->over = false;
	connect_init(s);
	memory_refill(s);
	connect_publish(s);
}

static bool completion_is_sure(const struct side *s)
{
	unsigned int end = s->posted;

	if (s->over)
		return false;
	if ((s->failed || s->moved) && s->retired < end)
		return true;
	for (unsigned int k = s->retired; k < end && k < s->v.sure; k++)
		if (s->signaled[k])
			return true;
	return false;
}

static bool sends_settled(const struct side *s)
{
	if (s->over)
		return true;
	if (s->failed || s->moved)
		return s->retired == s->v.ops ||
		       (s->retired == s->posted && s->posted == s->want_ops);
	return s->posted >= s->v.sure && !completion_is_sure(s);
}

static bool receives_settled(const struct side *s)
{
	if (s->over || !reliable(s->v.l) || s->v.i_break || s->v.they_break)
		return true;
	return s->delivered >= s->v.due;
}

static unsigned int poll_both(struct side *s)
{
	unsigned int n = box_poll(s->pr, s->sbox, 16);

	if (s->rbox != s->sbox)
		n += box_poll(s->pr, s->rbox, 16);
	return n;
}

static void arm(struct box *b)
{
	pthread_mutex_lock(&b->lock);
	b->arms++;
	if (ibv_req_notify_cq(b->cq, 0))
		board_fail("ibv_req_notify_cq is refused");
	pthread_mutex_unlock(&b->lock);
}

/* Sleeps for a completion that is sure to come: whoever else is to do something for it may sleep
 * likewise. */
static void sleep_for_event(struct side *s)
{
	struct box *b;
	struct ibv_cq *cq;
	void *arg;

	arm(&s->own[0]);
	arm(&s->own[1]);
	if (poll_both(s) || !completion_is_sure(s))
		return;
	board_tick();
	must_eq(s, ibv_get_cq_event(s->channel, &cq, &arg), 0);
	b = arg;
	must(s, cq == b->cq);
	pthread_mutex_lock(&b->lock);
	b->events++;
	must(s, b->events <= b->arms);
	pthread_mutex_unlock(&b->lock);
}

static void tell(const struct side *s)
{
	snprintf(board->seat[s->link][s->s].waits, LOG_WIDTH,
		 "episode %u: posted %u of %u (sure %u), retired %u%s%s; receives %u of %u, %u "
		 "done, "
		 "%u of %u",
		 s->ep, s->posted, s->v.ops, s->v.sure, s->retired, s->failed ? ", failed" : "",
		 s->moved ? ", moved" : "", s->rposted, s->v.recvs, s->rdone, s->delivered,
		 s->v.due);
}

static void idle(struct side *s)
{
	bool alone = s->rbox != &s->pr->shared || s->v.l->srq[s->s] || s->rposted == s->v.recvs;

	if (s->v.mine->by_events && alone && completion_is_sure(s))
		sleep_for_event(s);
	else if (s->posted == s->v.ops && s->rposted == s->v.recvs && s->pr->p->seed % 3 == 0)
		board_nap();
	else
		sched_yield();
}

/* Until both sides have all that is sure to come. */
static void drain(struct side *s)
{
	struct seat *seat = board->seat[s->link];
	bool told = false;

	if (!s->over)
		work_step(s, &(struct step){ .kind = S_RTS });
	for (;;) {
		unsigned int n;
		bool peer;

		work_serve(s);
		n = poll_both(s);
		if (!told && sends_settled(s)) {
			atomic_store(&seat[s->s].sends_done, s->ep + 1);
			told = true;
		}
		peer = atomic_load(&seat[!s->s].sends_done) > s->ep ||
		       board_peer_gone(s->link, s->s, s->seen);
		if (told && peer &&
		    (receives_settled(s) || board_peer_gone(s->link, s->s, s->seen)))
			return;
		if (n)
			continue;
		tell(s);
		idle(s);
	}
}

/* A responder acknowledges first and completes then: between the two is no order, and the ACK may
 * wake the peer, which runs in the place of the thread that completes. */
static void poll_until(struct side *s, unsigned int delivered)
{
	while (!s->over && s->delivered < delivered)
		if (!poll_both(s))
			board_nap();
}

static void poll_dry(struct side *s)
{
	while (poll_both(s))
		;
}

static void count_lost(struct side *s)
{
	enum lossy kind = s->v.l->type == IBV_QPT_UC   ? LOSSY_UC
			  : s->v.l->type == IBV_QPT_UD ? LOSSY_UD
						       : LOSSY_FRAMES;

	if (reliable(s->v.l) || s->v.i_break || s->v.they_break)
		return;
	atomic_fetch_add(&board->due[kind], s->v.due);
	atomic_fetch_add(&board->came[kind], s->delivered);
}

/* What the sender knows to have arrived has a completion here. */
static void compare(struct side *s)
{
	const struct seat *peer = &board->seat[s->link][!s->s];

	if (reliable(s->v.l))
		poll_until(s, peer->delivered);
	poll_dry(s);
	if (s->over)
		return;
	count_lost(s);
	memory_verify(s);
}

/* Everything that is left is flushed, each once. */
static void flush(struct side *s)
{
	bool was = s->moved;

	atomic_store(&s->moved, true);
	side_to(s, IBV_QPS_ERR);
	work_serve(s);
	while (s->rdone < s->rposted || ((s->failed || was) && s->retired < s->posted) ||
	       completion_is_sure(s))
		if (!poll_both(s))
			sched_yield();
	poll_dry(s);
	events_read(s->pr);
	if (s->v.l->srq[s->s] && s->v.l->type != IBV_QPT_XRC_SEND)
		must_eq(s, s->async[IBV_EVENT_QP_LAST_WQE_REACHED], 1);
}

static void end(struct side *s)
{
	domain_return(s);
	frame_end(s);
	if (!s->over && (s->v.mine->end == END_ERR || s->v.l->srq[s->s]))
		flush(s);
	if (!s->over && s->v.mine->end == END_DESTROY)
		side_destroy(s);
	else if (!s->over)
		side_reset(s);
	events_read(s->pr);
}

static void steps(struct side *s)
{
	const struct plan *p = s->v.mine;

	for (unsigned int i = 0; i < p->steps && !s->over; i++) {
		if (s->pr->p->off[program_index(s->link, s->ep, s->s, i)])
			continue;
		board_log("link %u %c episode %u step %u: %s %u (posted %u, retired %u; receives "
			  "%u, %u)",
			  s->link, "ab"[s->s], s -> ep, i, step_name(p->step[i].kind),
			  p -> step[i].n, s->posted, s->retired, s->rposted, s->rdone);
		work_step(s, &p->step[i]);
	}
}

static bool meet(struct side *s, unsigned int phase)
{
	return board_meet(s->link, s->s, s->ep * PHASES + phase + 1, s->seen);
}

static void episode(struct side *s)
{
	bool whole;

	begin(s);
	whole = meet(s, MET);
	if (whole) {
		connect_up(s);
		whole = meet(s, CONNECTED);
	}
	if (whole) {
		steps(s);
		drain(s);
		work_publish(s);
		whole = meet(s, DRAINED);
	}
	if (whole) {
		compare(s);
		atomic_store(&s->ending, true);
		whole = meet(s, COMPARED);
	}
	end(s);
	board_log("link %u %c episode %u is over%s", s->link, "ab"[s->s], s -> ep,
		  whole ? "" : ", the other side has died");
}

void *side_run(void *arg)
{
	struct side *s = arg;

	for (uint32_t from = 0;; from = s->ep + 1) {
		s->ep = board_enter(s->link, s->s, from, &s->seen);
		if (s->ep >= EPISODES)
			return NULL;
		episode(s);
	}
}
