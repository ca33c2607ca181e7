// SPDX-License-Identifier: MIT
/* Posting, and the steps of a side. */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "property/side.h"
#include "verbs/cases.h"

/* --- operations --- */

static uint64_t remote_at(const struct side *s, unsigned int k)
{
	const struct program *p = s->pr->p;
	const struct op *o = &s->v.mine->op[k];
	uint64_t va = o->via == VIA_TYPE_2 && s->v.theirs->zero_based ? 0 : s->peer.va;

	if (o->sin == SIN_BOUNDS)
		return va + memory_bytes(p) - (must_align(o) ? 0 : o->len - 1);
	if (is_atomic(o))
		return va + WORD_AT + (o->sin == SIN_UNALIGNED);
	if (is_write(o))
		return va + slot_at(p, AREA_TARGET, k) + (o->sin == SIN_UNALIGNED);
	if (o->of != NONE)
		return va + slot_at(p, AREA_TARGET, o->of);
	return va + SOURCE_AT;
}

/* Nobody's key; 0x100 would end a list of receive SGEs. */
static uint32_t bad_key(uint32_t key)
{
	return key == 0x111 ? key ^ 0x22 : key ^ 0x11;
}

static bool own_dereg(const struct side *s)
{
	for (unsigned int i = 0; i < s->v.mine->steps; i++)
		if (s->v.mine->step[i].kind == S_DEREG)
			return true;
	return false;
}

static uint32_t remote_key(const struct side *s, const struct op *o)
{
	if (o->sin == SIN_RKEY)
		return bad_key(s->peer.rkey);
	if (o->sin == SIN_RIGHT)
		return s->peer.read_only_rkey;
	if (o->via != VIA_REGION)
		return s->peer.window[o->via - 1];
	if (o->sin == SIN_FICKLE && !own_dereg(s))
		return s->peer.fickle_rkey;
	return s->peer.rkey;
}

static uint32_t local_key(const struct side *s, const struct op *o)
{
	if (o->sin == SIN_LKEY)
		return bad_key(s->mr->lkey);
	if (o->sin == SIN_FICKLE && own_dereg(s))
		return s->fickle_lkey;
	return s->mr->lkey;
}

/* Every atomic that stands before has been executed when this one is. */
static void atomic_args(struct side *s, struct ibv_send_wr *wr, unsigned int k)
{
	const struct op *o = &s->v.mine->op[k];
	struct seat *seat = &board->seat[s->link][s->s];
	bool hit = o->content & 1, fails = o->sin && o->sin != SIN_FICKLE;

	s->original[k] = s->word;
	wr->wr.atomic.remote_addr = remote_at(s, k);
	wr->wr.atomic.rkey = remote_key(s, o);
	if (o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.compare_add = o->content;
		s->word += fails ? 0 : o->content;
	} else {
		wr->wr.atomic.compare_add = hit ? s->word : ~s->word;
		wr->wr.atomic.swap = o->content;
		s->word = hit && !fails ? o->content : s->word;
	}
	seat->word[++seat->words] = s->word;
}

static void address(struct side *s, struct ibv_send_wr *wr, unsigned int k)
{
	const struct op *o = &s->v.mine->op[k];

	if (is_local(o) || o->opcode == IBV_WR_SEND_WITH_INV) {
		window_build(s, k, wr);
	} else if (s->v.l->type == IBV_QPT_UD) {
		wr->wr.ud.ah = s->ah;
		wr->wr.ud.remote_qpn = s->peer.qpn;
		wr->wr.ud.remote_qkey = side_qkey(s);
		return;
	}
	if (s->v.l->type == IBV_QPT_XRC_SEND)
		wr->qp_type.xrc.remote_srqn = s->peer.srqn ^ (o->sin == SIN_SRQ ? 0x3f00 : 0);
	if (is_atomic(o)) {
		atomic_args(s, wr, k);
	} else {
		wr->wr.rdma.remote_addr = remote_at(s, k);
		wr->wr.rdma.rkey = remote_key(s, o);
	}
}

static void build(struct side *s, unsigned int k, struct ibv_send_wr *wr, struct ibv_sge *sg)
{
	const struct op *o = &s->v.mine->op[k];
	unsigned int from = o->of != NONE && !brings(o) ? o->of : k;
	uint8_t *at = s->mem + slot_at(s->pr->p, AREA_OPS, from);
	uint32_t len = op_len(s->pr->p, o), run = 0;

	*wr = (struct ibv_send_wr){ .wr_id = wr_id(s, false, k),
				    .sg_list = sg,
				    .opcode = o->opcode,
				    .send_flags = o->flags,
				    .imm_data = htonl(k) };
	if (!brings(o) && from == k)
		pieces_fill(at, len, o->nsge, o->content);
	if (s->v.l->type == IBV_QPT_RAW_PACKET)
		*sg++ = frame_head(s);
	wr->num_sge = (int)(pieces(sg, at, len, o->nsge, local_key(s, o)) +
			    (unsigned int)(sg - wr->sg_list));
	while (run < k && !s->signaled[k - 1 - run])
		run++;
	if (run + 1 >= (s->cap.max_send_wr + 1) / 2 || k + 1 == s->v.ops)
		wr->send_flags |= IBV_SEND_SIGNALED;
	s->signaled[k] = s->v.mine->sig_all || (wr->send_flags & IBV_SEND_SIGNALED);
	address(s, wr, k);
}

/* A full queue refuses. */
static bool full(struct side *s)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad = NULL;
	bool yes;

	if (s->posted - s->retired < s->cap.max_send_wr)
		return false;
	pthread_mutex_lock(&s->sbox->lock);
	yes = s->posted - s->retired >= s->cap.max_send_wr;
	if (yes && !head_of(s->v.l)) {
		must_eq(s, ibv_post_send(s->qp, &wr, &bad), ENOMEM);
		must(s, bad == &wr);
	}
	pthread_mutex_unlock(&s->sbox->lock);
	return yes;
}

enum { LIST = 4 }; /* work requests of one call */

/* Posts the next ones, as many as there is room for, in one call. False: there is none. */
static bool post_list(struct side *s, unsigned int n, bool chain)
{
	unsigned int k = s->posted, room;
	struct ibv_send_wr wr[LIST], *bad;
	struct ibv_sge sg[LIST][SGES];

	if (full(s))
		return false;
	pthread_mutex_lock(&s->sbox->lock);
	room = s->cap.max_send_wr - (s->posted - s->retired);
	n = n < room ? n : room;
	for (unsigned int i = 0; i < n; i++) {
		build(s, k + i, &wr[i], sg[i]);
		if (i)
			wr[i - 1].next = &wr[i];
	}
	atomic_store(&s->posted, k + n);
	pthread_mutex_unlock(&s->sbox->lock);
	if (s->qpx && s->v.mine->op[k].content % 4) {
		if (chain)
			builder_refused(s, &wr[0]);
		must_eq(s, builder_post(s, wr), 0);
	} else if (chain) {
		refused_chain(s, wr);
	} else {
		must_eq(s, ibv_post_send(s->qp, wr, &bad), 0);
	}
	return true;
}

static void post_ops(struct side *s)
{
	unsigned int left;

	while ((left = s->want_ops - s->posted)) {
		unsigned int n = 1 + (unsigned int)(s->v.mine->op[s->posted].content >> 8) % LIST;

		if (!post_list(s, n < left ? n : left, false))
			return;
	}
}

static void post_recvs(struct side *s)
{
	struct ibv_sge sg[SGES];
	struct ibv_recv_wr wr = { .sg_list = sg }, *bad;

	while (s->rposted < s->want_recvs && s->rposted - s->rdone < s->cap.max_recv_wr) {
		unsigned int r = s->rposted;
		const struct recv *v = &s->v.mine->recv[r];

		wr.wr_id = wr_id(s, true, r);
		wr.num_sge = (int)pieces(sg, s->mem + slot_at(s->pr->p, AREA_RECVS, r), v->len,
					 v->nsge, v->sin ? bad_key(s->mr->lkey) : s->mr->lkey);
		atomic_store(&s->rposted, r + 1);
		must_eq(s, ibv_post_recv(s->qp, &wr, &bad), 0);
	}
}

void work_serve(struct side *s)
{
	if (s->over)
		return;
	if (s->v.l->srq[s->s])
		pool_fill(s->pool);
	else
		post_recvs(s);
	post_ops(s);
}

/* --- what became of them --- */

static enum outcome outcome(const struct side *s, unsigned int k)
{
	if (k >= s->posted)
		return OUT_NONE;
	if (s->failed ? k < s->failed_at : k < s->retired)
		return reliable(s->v.l) ? OUT_SUCCESS : OUT_UNKNOWN;
	if (s->failed && reliable(s->v.l) &&
	    model_flushed_unsent(&s->v.mine->op[s->failed_at], s->first) && !s->moved)
		return OUT_NONE;
	return OUT_UNKNOWN;
}

void work_publish(struct side *s)
{
	struct seat *seat = &board->seat[s->link][s->s];

	seat->words_sure = 0;
	seat->delivered = 0;
	for (unsigned int k = 0; k < s->v.ops; k++) {
		seat->out[k] = (uint8_t)outcome(s, k);
		if (seat->out[k] != OUT_SUCCESS)
			continue;
		seat->words_sure += is_atomic(&s->v.mine->op[k]);
		seat->delivered += takes_receive(&s->v.mine->op[k]);
	}
}

/* --- steps --- */

static void query(struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	enum ibv_qp_state want = s->moved ? IBV_QPS_ERR : s->sqd ? IBV_QPS_SQD : IBV_QPS_RTS;

	must_eq(s, ibv_query_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
	must_eq(s, a.cap.max_send_wr, s->cap.max_send_wr);
	if (a.qp_state == want)
		return;
	if (!s->v.i_break && !s->v.they_break)
		must_eq(s, a.qp_state, want);
	must(s, a.qp_state == IBV_QPS_ERR || a.qp_state == IBV_QPS_SQE);
}

/* A child may do nothing with what it inherits, and does no harm. */
static void fork_child(struct side *s)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	int status;
	pid_t pid;

	if (cases_sanitized())
		return; /* with threads its runtime may hold locks at the fork */
	pid = fork();
	must(s, pid >= 0);
	if (!pid)
		_exit(ibv_post_send(s->qp, &wr, &bad) == EIO ? 0 : 3);
	while (waitpid(pid, &status, 0) < 0)
		must_eq(s, errno, EINTR);
	must_eq(s, status, 0);
}

static void arm(struct box *b, bool solicited)
{
	pthread_mutex_lock(&b->lock);
	b->arms++;
	if (ibv_req_notify_cq(b->cq, solicited))
		board_fail("ibv_req_notify_cq is refused");
	pthread_mutex_unlock(&b->lock);
}

/* Its queue drains; one that fails meanwhile may be in ERR before. */
static void drain_queue(struct side *s, bool notify)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify };
	int err =
		ibv_modify_qp(s->qp, &a, IBV_QP_STATE | (notify ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));

	s->sqd = !err;
	if (err)
		must(s, s->v.i_break || s->v.they_break);
}

static void go_on(struct side *s)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };

	if (s->sqd && ibv_modify_qp(s->qp, &a, IBV_QP_STATE))
		must(s, s->v.i_break || s->v.they_break);
	s->sqd = false;
}

static void end_key(struct side *s, enum via what)
{
	if (what == VIA_REGION) {
		if (s->fickle)
			must_eq(s, ibv_dereg_mr(s->fickle), 0);
		s->fickle = NULL;
		return;
	}
	if (s->mw[what - 1])
		must_eq(s, ibv_dealloc_mw(s->mw[what - 1]), 0);
	s->mw[what - 1] = NULL;
}

static void break_step(struct side *s, enum step_kind kind)
{
	switch (kind) {
	case S_DEREG:
		end_key(s, s->v.l->ep[s->ep].fickle);
		break;
	case S_ERR:
		atomic_store(&s->moved, true);
		side_to(s, IBV_QPS_ERR);
		s->sqd = false;
		break;
	case S_KILL:
		kill(getpid(), SIGKILL);
		break;
	case S_RESET:
		side_reset(s);
		break;
	default:
		side_destroy(s);
	}
}

static void resize(struct side *s, unsigned int n)
{
	struct box *b = n & 1 ? s->sbox : s->rbox;
	int room = b == &s->pr->shared ? SITS_IN * (OPS + RECVS) : OPS + RECVS;

	if (s->pool == &s->own_pool) /* the process' one is the meddler's to change */
		pool_change(s->pool, n);
	must_eq(s, ibv_resize_cq(b->cq, room + (int)n), 0);
}

static void quiet_step(struct side *s, const struct step *st)
{
	switch (st->kind) {
	case S_POLL:
		box_poll(s->pr, s->sbox, st->n);
		box_poll(s->pr, s->rbox, st->n);
		break;
	case S_PAUSE:
		for (unsigned int i = 0; i < st->n; i++)
			sched_yield();
		break;
	case S_ILLEGAL:
		refused_call(s, st->n);
		break;
	case S_QUERY:
		query(s);
		break;
	case S_OPEN:
		domain_step(s, st->n);
		break;
	case S_ARM:
		arm(st->n & 1 ? s->sbox : s->rbox, st->n);
		break;
	case S_RESIZE:
		resize(s, st->n);
		break;
	default:
		fork_child(s);
	}
}

void work_step(struct side *s, const struct step *st)
{
	switch (st->kind) {
	case S_SEND:
		s->want_ops += st->n;
		break;
	case S_RECV:
		s->want_recvs += st->n;
		break;
	case S_CHAIN:
		s->want_ops++;
		break;
	case S_SQD: /* an unreliable QP that fails meanwhile would go on from SQE */
		if (!s->moved && (reliable(s->v.l) || !s->v.i_break))
			drain_queue(s, st->n);
		break;
	case S_RTS:
		go_on(s);
		break;
	default:
		if (st->kind >= S_DEREG)
			break_step(s, st->kind);
		else
			quiet_step(s, st);
	}
	if (s->want_ops > s->v.ops)
		s->want_ops = s->v.ops;
	if (s->want_recvs > s->v.recvs)
		s->want_recvs = s->v.recvs;
	if (s->over)
		return;
	if (st->kind == S_CHAIN && s->posted + 1 == s->want_ops)
		post_list(s, 1, true);
	work_serve(s);
}
