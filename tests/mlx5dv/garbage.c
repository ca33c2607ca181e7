// SPDX-License-Identifier: MIT
/* Queue pairs whose program writes garbage into rings, records and doorbell pages while the engine
 * works: right, half right and random WQEs, receives, links, indices, stores. Whatever comes, the
 * process lives; witnesses beside it (witness.h) get every byte and completion; memory that no key
 * opens stays as it was, here and in another process; a queue pair works on, or has failed with a
 * completion and a sentence; and all can be destroyed. SOFTHCA_SEED gives a run's garbage again,
 * but not its timing. */
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "mlx5dv/dc_duo.h"
#include "mlx5dv/garbage_far.h"
#include "mlx5dv/garbage_write.h"
#include "verbs/said.h"

enum { TIMES = 40, EPISODES = 6, STEPS = 48, RECEIVES = 4, ENTRIES = 128, MS = 20000, PAGE = 4096 };
enum { CQ_RECORD = 0, ARM_RECORD = 1 };

static uint64_t seed;

/* What is garbage in a round; the rest is right. */
enum {
	BAD_WQES = 1,
	BAD_SEND_RECORD = 2,
	BAD_RECEIVES = 4,
	BAD_RECEIVE_RECORD = 8,
	BAD_ENTRIES = 16,
	BAD_CQ_RECORD = 32,
	STORES = 64,
	FLIPS = 128,
	ALL = 255,
	UNREADABLE = BAD_ENTRIES | BAD_CQ_RECORD, /* completions are not looked at */
};

static struct {
	enum ibv_qp_type type;
	bool far; /* its peer is in the other process */
	bool shut; /* and may only be read */
	bool shared; /* receives are those of an SRQ */
	unsigned int what;
} r;

/* A queue pair that is given garbage. */
static struct end {
	struct hand h;
	struct paper sq, rq;
	unsigned int errors; /* entries since it was connected */
	bool event; /* an asynchronous one since then */
	uint16_t last; /* index of the WQE that shall show that it works */
	bool works; /* that one has completed */
	bool lied; /* its send record told of WQEs that are none, or are those of an earlier life */
} ends[2];

static struct { /* receives of ends[1] or of a DC target here */
	struct ibv_srq *srq;
	struct mlx5dv_srq dv;
	struct paper ring;
	uint16_t posted;
} pool;

static struct end target; /* DC, here: it has receives and entries alone */
static struct ibv_comp_channel *channel; /* of their CQs */
static struct far_side side; /* of this process */
static int far_fd;
static long said_from; /* of the file with explanations */

static unsigned int ends_n(void)
{
	return r.far || r.type == IBV_QPT_DRIVER ? 1 : 2;
}

/* --- rings in memory of the program, between pages without rights --- */

static void *between_guards(size_t size, void *data)
{
	size_t whole = (size + PAGE - 1) & ~(PAGE - 1UL);
	uint8_t *p = mmap(NULL, whole + 2UL * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)data;
	want(p != MAP_FAILED);
	want(!mprotect(p + PAGE, whole, PROT_READ | PROT_WRITE));
	return p + PAGE + whole - size;
}

static void stays(void *p, void *data)
{
	(void)p;
	(void)data;
}

/* --- objects --- */

static struct ibv_cq *entries_of(unsigned int size)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = ENTRIES - 1, .channel = channel };
	struct mlx5dv_cq_init_attr dv = { .comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
					  .cqe_size = (uint16_t)size };
	struct ibv_cq_ex *cq = mlx5dv_create_cq(dev.ctx, &attr, &dv);

	want(cq);
	return ibv_cq_ex_to_cq(cq);
}

static struct ibv_qp *initiator(struct ibv_cq *cq, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_DRIVER,
					    .send_cq = cq,
					    .recv_cq = cq,
					    .cap = cap,
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = side.pd[0] };
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					  .dc_init_attr = { .dc_type = MLX5DV_DCTYPE_DCI } };

	attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
	return mlx5dv_create_qp(dev.ctx, &attr, &dv);
}

static void end_make(struct end *e, struct ibv_srq *srq)
{
	struct ibv_qp_cap cap = { 4 << dice_below(3), 4 << dice_below(3), 1 + dice_below(4),
				  1 + dice_below(4), dice_below(2) * 64 };
	struct ibv_cq *cq = entries_of(64 << dice_below(2));
	struct ibv_qp_init_attr attr = { .qp_type = r.type,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .srq = srq,
					 .cap = cap,
					 .sq_sig_all = one_in(8) };
	struct hand *h = &e->h;
	struct mlx5dv_obj obj = { .qp = { .out = &h->qp }, .cq = { cq, &h->cq } };

	*e = (struct end){ 0 };
	h->ep.scq = h->ep.rcq = cq;
	h->ep.qp = r.type == IBV_QPT_DRIVER ? initiator(cq, cap) : ibv_create_qp(side.pd[0], &attr);
	want(h->ep.qp);
	h->ep.mine = (struct peer_addr){ .qpn = h->ep.qp->qp_num, .psn = 7, .gid = dev.gid };
	obj.qp.in = h->ep.qp;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
	paper_of(&e->sq, h->qp.sq.buf, (size_t)h->qp.sq.wqe_cnt * BLOCK);
	paper_of(&e->rq, h->qp.rq.buf, (size_t)h->qp.rq.wqe_cnt * h->qp.rq.stride);
}

static void pool_make(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 15, .max_sge = 1 + dice_below(3) } };
	struct mlx5dv_obj obj = { .srq = { .out = &pool.dv } };

	pool.srq = obj.srq.in = ibv_create_srq(side.pd[0], &attr);
	want(pool.srq);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
	pool.posted = 0;
	paper_of(&pool.ring, pool.dv.buf, (pool.dv.tail + 1UL) * pool.dv.stride);
}

static void target_make(void)
{
	struct peer_dev in = { dev.ctx, side.pd[0], dev.gid };
	struct hand *h = &target.h;
	struct mlx5dv_obj obj = { .cq = { .out = &h->cq } };

	h->ep.scq = obj.cq.in = entries_of(64 << dice_below(2));
	h->ep.qp = dc_target_make(&in, h->ep.scq, pool.srq, ACCESS_KEY);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	dc_target_rtr(h->ep.qp);
}

/* --- what garbage knows --- */

static void aim(struct aim *list, unsigned int *n, uint64_t va, uint64_t len, uint32_t key)
{
	want(*n < AIMS);
	list[(*n)++] = (struct aim){ va, len, key };
}

static void aim_at_plots(struct aim *list, unsigned int *n, const struct plot_key *plot)
{
	for (int i = 0; i < PLOTS; i++)
		aim(list, n, plot[i].va, PLOT_BYTES, plot[i].key);
}

/* Memory that nobody registered, with a key that opens other memory. */
static void aim_beside(struct aim *list, unsigned int *n, uint32_t key)
{
	aim(list, n, (uintptr_t)ends[0].h.qp.sq.buf, BLOCK, key);
	aim(list, n, (uintptr_t)a.qp.sq.buf, BLOCK, key);
	aim(list, n, (uintptr_t)a.qp.bf.reg, 8, key);
	aim(list, n, (uintptr_t)&side.plots, sizeof(side.plots), key);
	aim(list, n, side.mine.witness.va, WITNESS_BYTES, key);
}

static void aim_all(void)
{
	const struct plot_key *near = side.mine.plot, *far = side.theirs.plot;
	const struct plot_key *to = r.far ? &far[r.shut ? PLOT_SHUT : PLOT_OPEN] : near;

	garbage.n_local = garbage.n_remote = 0;
	aim_at_plots(garbage.local, &garbage.n_local, near);
	aim_beside(garbage.local, &garbage.n_local, near[PLOT_OPEN].key);
	aim(garbage.local, &garbage.n_local, 0, 512, garbage.mkey);
	aim(garbage.local, &garbage.n_local, side.mine.witness.va, WITNESS_BYTES,
	    side.mine.witness.key);
	aim(garbage.local, &garbage.n_local, (uintptr_t)mem, BYTES, mr->lkey);
	aim(garbage.remote, &garbage.n_remote, to->va, PLOT_BYTES, to->key);
	aim_at_plots(garbage.remote, &garbage.n_remote, near);
	aim_at_plots(garbage.remote, &garbage.n_remote, far);
	aim_beside(garbage.remote, &garbage.n_remote, to->key);
	aim(garbage.remote, &garbage.n_remote, 0, 512, garbage.mkey);
	aim(garbage.remote, &garbage.n_remote, side.theirs.witness.va, WITNESS_BYTES,
	    side.theirs.witness.key);
}

static void number(uint32_t n)
{
	want(garbage.n_numbers < NUMBERS);
	garbage.number[garbage.n_numbers++] = n;
}

/* First those that end with the round; in the next they are dead. */
static void number_all(void)
{
	uint32_t dead[4];

	memcpy(dead, garbage.number, sizeof(dead));
	garbage.n_numbers = 0;
	for (unsigned int i = 0; i < ends_n(); i++) {
		number(ends[i].h.ep.qp->qp_num);
		number(ends[i].h.cq.cqn);
	}
	for (unsigned int i = 0; i < side.mine.witness.n; i++)
		number(side.mine.witness.qpn[i]);
	number(side.theirs.witness.qpn[0]);
	number(a.ep.qp->qp_num);
	number(b.ep.qp->qp_num);
	number(a.cq.cqn);
	number(garbage.to);
	for (int i = 0; i < 4; i++)
		number(dead[i]);
}

/* --- connections --- */

static void move(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
	want_eq(ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE), 0);
}

static void to_reset(struct ibv_qp *qp)
{
	move(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, 0);
}

static void connect_initiator(struct ibv_qp *qp)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096 };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 8,
				   .retry_cnt = 1,
				   .rnr_retry = 2,
				   .max_rd_atomic = 4 };

	move(qp, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT);
	move(qp, rtr, IBV_QP_PATH_MTU);
	move(qp, rts,
	     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Waits are short, so that a queue pair soon works or has failed. */
static void connect_end(struct end *e)
{
	struct peer_opts o = { .type = r.type,
			       .mtu = IBV_MTU_1024,
			       .timeout = 8,
			       .retry = 1,
			       .rnr = 2,
			       .min_rnr_timer = 1,
			       .rd_atomic = 4 };

	e->h.sent = e->h.received = 0;
	if (r.type == IBV_QPT_DRIVER)
		connect_initiator(e->h.ep.qp);
	else
		peer_connect(&e->h.ep, &o);
}

static void connect_all(void)
{
	struct peer_addr here = ends[0].h.ep.mine;

	if (r.far)
		far_tell(far_fd, (struct far_order){ FAR_CONNECT, r.type, r.shut, here });
	for (unsigned int i = 0; i < ends_n(); i++)
		connect_end(&ends[i]);
}

/* --- what has come --- */

static bool is_of(const struct end *e, const void *object)
{
	return object && (object == e->h.ep.qp || object == e->h.ep.scq);
}

static bool ours(const void *object)
{
	for (unsigned int i = 0; i < ends_n(); i++)
		if (is_of(&ends[i], object))
			return true;
	return object &&
	       (object == target.h.ep.qp || object == target.h.ep.scq || object == pool.srq);
}

/* Asynchronous events, which tell of the queue pairs with garbage alone. */
static void take_events(void)
{
	struct pollfd p = { .fd = dev.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	while (poll(&p, 1, 0) == 1) {
		want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
		if (!ours(ev.element.qp))
			fail("event %d of an object without garbage", ev.event_type);
		for (unsigned int i = 0; i < ends_n(); i++)
			ends[i].event |= is_of(&ends[i], ev.element.qp);
		ibv_ack_async_event(&ev);
	}
}

/* Nobody arms CQs but by garbage. */
static void take_arms(void)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	while (poll(&p, 1, 0) == 1) {
		want_eq(ibv_get_cq_event(channel, &cq, &context), 0);
		want(ours(cq));
		ibv_ack_cq_events(cq, 1);
	}
}

static void nobody_armed(const struct hand *h)
{
	struct pollfd p = { .fd = h->channel->fd, .events = POLLIN };

	want_eq(poll(&p, 1, 0), 0);
}

static void look_at(struct end *e, const struct mlx5_cqe64 *cqe)
{
	uint8_t code = mlx5dv_get_cqe_opcode((struct mlx5_cqe64 *)cqe);

	if (code == MLX5_CQE_REQ_ERR || code == MLX5_CQE_RESP_ERR)
		e->errors++;
	if (r.what & UNREADABLE)
		return;
	want(code == MLX5_CQE_REQ || code <= MLX5_CQE_RESP_SEND_INV || code >= MLX5_CQE_REQ_ERR);
	want_eq(be32toh(cqe->sop_drop_qpn) & 0xffffff, e->h.ep.qp->qp_num);
}

static void take_entries(struct end *e)
{
	for (int i = 0; i < 2 * ENTRIES && ready(&e->h); i++) {
		const struct mlx5_cqe64 cqe = *entry(&e->h);

		look_at(e, &cqe);
		e->works |= cqe.op_own >> 4 == MLX5_CQE_REQ && be16toh(cqe.wqe_counter) == e->last;
		e->h.polled++;
		record(&e->h.cq.dbrec[CQ_RECORD], e->h.polled & 0xffffff);
	}
}

static void take_all(void)
{
	for (unsigned int i = 0; i < ends_n(); i++)
		take_entries(&ends[i]);
	if (target.h.ep.qp)
		take_entries(&target);
	take_events();
	take_arms();
}

/* --- steps --- */

static void send_step(struct end *e)
{
	const void *first = garbage_wqe(&e->h, &e->sq, r.what & BAD_WQES && one_in(3));
	bool lies = r.what & BAD_SEND_RECORD && one_in(8);
	uint64_t value;

	e->lied |= lies;
	if (lies)
		record(&e->h.qp.dbrec[MLX5_SND_DBR],
		       garbage_index(e->h.sent, e->h.qp.sq.wqe_cnt) & 0xffff);
	else
		record(&e->h.qp.dbrec[MLX5_SND_DBR], e->h.sent);
	if (r.what & STORES && one_in(4))
		return;
	memcpy(&value, first, sizeof(value));
	*(volatile uint64_t *)e->h.qp.bf.reg = value;
}

static uint32_t received(uint16_t now, uint32_t entries)
{
	if (r.what & BAD_RECEIVE_RECORD && one_in(6))
		return garbage_index(now, entries) & 0xffff;
	return now;
}

static void receive_step(struct end *e)
{
	bool bad = r.what & BAD_RECEIVES && one_in(3);
	const struct mlx5dv_qp *qp = &e->h.qp;

	if (e->rq.len) {
		garbage_receive(&e->rq, e->h.received % qp->rq.wqe_cnt, qp->rq.stride, 0, bad);
		record(&qp->dbrec[MLX5_RCV_DBR], received(++e->h.received, qp->rq.wqe_cnt));
	} else if (pool.srq) {
		uint32_t slots = pool.dv.tail + 1;

		garbage_receive(&pool.ring, pool.posted % slots, pool.dv.stride, SEG, bad);
		record(pool.dv.dbrec, received(++pool.posted, slots));
	}
}

static void entry_step(struct end *e)
{
	const struct mlx5dv_cq *cq = &e->h.cq;
	uint8_t *ring = cq->buf;

	for (int i = 0; r.what & BAD_ENTRIES && i < 64; i++)
		__atomic_store_n(ring + dice_below(cq->cqe_cnt * cq->cqe_size), (uint8_t)dice(),
				 __ATOMIC_RELAXED);
	if (r.what & BAD_CQ_RECORD && one_in(4))
		record(&cq->dbrec[CQ_RECORD], garbage_index(e->h.polled, cq->cqe_cnt));
	if (r.what & STORES)
		record(&cq->dbrec[ARM_RECORD], garbage_index(e->h.polled, cq->cqe_cnt));
}

static void store_step(struct end *e)
{
	if (r.what & STORES)
		garbage_store((uint8_t *)((uintptr_t)e->h.qp.bf.reg & ~(PAGE - 1UL)));
}

static void flip_step(struct end *e)
{
	if (!(r.what & FLIPS))
		return;
	if (one_in(2))
		paper_flip(&e->sq);
	else if (e->rq.len)
		paper_flip(&e->rq);
	else if (pool.srq)
		paper_flip(&pool.ring);
}

static void hand_witness(struct end *e)
{
	uint32_t imm = (uint32_t)dice();
	uint16_t at = a.sent;

	(void)e;
	pattern_fill(mem, LEN, imm, 0);
	hand_recv(&b);
	hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, imm);
	received_ok(&b, LEN, imm);
	sent_ok(&a, at);
	want_eq(pattern_check(mem + HALF, LEN, imm, 0), LEN);
}

static void step(void)
{
	static void (*const steps[])(struct end * e) = {
		send_step,    send_step,  send_step,  send_step, receive_step,
		receive_step, entry_step, store_step, flip_step, hand_witness,
	};

	steps[dice_below(sizeof(steps) / sizeof(steps[0]))](&ends[dice_below(ends_n())]);
	take_all();
}

/* --- what has become of them --- */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* What was explained since the round began; to free(). */
static char *explained(void)
{
	FILE *f = fopen(said_file(SAID_NEAR), "re");
	char *text = NULL;
	size_t n = 0;

	if (f && !fseek(f, said_from, SEEK_SET) && getdelim(&text, &n, 0, f) < 0)
		text[0] = 0;
	if (f)
		fclose(f);
	return text;
}

static bool names(const char *text, const char *what, uint32_t n)
{
	char name[32];
	int len = snprintf(name, sizeof(name), "%s 0x%x", what, n);

	for (const char *at = text; at && (at = strstr(at, name)); at += len)
		if (!strchr("0123456789abcdef", at[len]))
			return true;
	return false;
}

static void want_explained(const struct end *e)
{
	char *text = explained();

	if (!names(text, "QP", e->h.ep.qp->qp_num) && !names(text, "CQ", e->h.cq.cqn))
		fail("QP 0x%x has failed, and nobody says why, but:\n%s", e->h.ep.qp->qp_num,
		     text ? text : "");
	free(text);
}

static enum ibv_qp_state state_of(const struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	want_eq(ibv_query_qp(e->h.ep.qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* A completion has an error, or an event tells of it. */
static bool told(struct end *e)
{
	take_all();
	return e->errors || e->event;
}

static void want_told(struct end *e)
{
	uint64_t end = now_ms() + MS;

	want_explained(e);
	while (!(r.what & UNREADABLE) && !told(e))
		if (now_ms() > end)
			fail("QP 0x%x is in state %d, and no completion or event tells it",
			     e->h.ep.qp->qp_num, state_of(e));
}

/* It does one thing more, or fails by what it was given before. */
static void want_works(struct end *e)
{
	uint64_t end = now_ms() + MS;
	uint64_t value;

	e->last = e->h.sent;
	e->works = false;
	memcpy(&value, garbage_nop(&e->h, &e->sq), sizeof(value));
	record(&e->h.qp.dbrec[MLX5_SND_DBR], e->h.sent);
	*(volatile uint64_t *)e->h.qp.bf.reg = value;
	while (!told(e) && !e->works)
		if (now_ms() > end)
			fail("QP 0x%x neither works nor has it failed", e->h.ep.qp->qp_num);
}

static void judge(struct end *e)
{
	enum ibv_qp_state state = state_of(e);

	want(state == IBV_QPS_RTS || state == IBV_QPS_SQE || state == IBV_QPS_ERR);
	if (state == IBV_QPS_RTS && !(r.what & UNREADABLE) && !e->lied)
		want_works(e);
	state = state_of(e);
	if (state != IBV_QPS_RTS)
		want_told(e);
}

/* --- rounds --- */

static bool one_failed(void)
{
	for (unsigned int i = 0; i < ends_n(); i++)
		if (state_of(&ends[i]) != IBV_QPS_RTS)
			return true;
	return false;
}

static void episode(void)
{
	connect_all();
	for (unsigned int i = 0; i < ends_n() * RECEIVES; i++)
		receive_step(&ends[i / RECEIVES]);
	for (unsigned int i = 0; i < STEPS && !(one_in(8) && one_failed()); i++)
		step();
	for (unsigned int i = 0; i < ends_n(); i++)
		judge(&ends[i]);
	for (unsigned int i = 0; i < ends_n(); i++)
		to_reset(ends[i].h.ep.qp);
	take_all();
	for (unsigned int i = 0; i < ends_n(); i++) {
		ends[i].errors = 0;
		ends[i].event = ends[i].lied = false;
	}
}

static void make(void)
{
	struct far_order o = { FAR_MAKE, r.type, r.shut, { 0 } };
	struct peer_addr to = { 0 };

	if (r.shared)
		pool_make();
	end_make(&ends[0], NULL);
	if (r.far) {
		to = far_tell(far_fd, o);
	} else if (r.type == IBV_QPT_DRIVER) {
		target_make();
		to = (struct peer_addr){ .qpn = target.h.ep.qp->qp_num, .gid = dev.gid };
	} else {
		end_make(&ends[1], pool.srq);
		ends[1].h.ep.theirs = ends[0].h.ep.mine;
		to = ends[1].h.ep.mine;
	}
	ends[0].h.ep.theirs = to;
	garbage.type = r.type;
	garbage.to = to.qpn;
	aim_all();
	number_all();
}

static void unmake(void)
{
	for (unsigned int i = 0; i < ends_n(); i++) {
		paper_want_same(&ends[i].sq, "send queue");
		paper_want_same(&ends[i].rq, "receive queue");
		want_eq(ibv_destroy_qp(ends[i].h.ep.qp), 0);
		want_eq(ibv_destroy_cq(ends[i].h.ep.scq), 0);
	}
	if (target.h.ep.qp) {
		want_eq(ibv_destroy_qp(target.h.ep.qp), 0);
		want_eq(ibv_destroy_cq(target.h.ep.scq), 0);
	}
	if (pool.srq) {
		paper_want_same(&pool.ring, "shared receive queue");
		want_eq(ibv_destroy_srq(pool.srq), 0);
	}
	memset(&target, 0, sizeof(target));
	memset(&pool, 0, sizeof(pool));
}

/* Half of them have one kind of garbage, some all kinds. */
static unsigned int some_garbage(void)
{
	if (one_in(2))
		return 1U << dice_below(8) | (one_in(2) ? BAD_WQES : 0);
	return one_in(4) ? ALL : dice_below(ALL) + 1;
}

static void choose(unsigned int round)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						  IBV_QPT_DRIVER };

	dice_begin(seed + round * 0x10001ULL);
	r.type = types[one_in(3) ? 0 : dice_below(4)];
	r.far = one_in(3);
	r.shut = r.far && r.type != IBV_QPT_DRIVER && one_in(3);
	r.shared = !r.far && r.type != IBV_QPT_UC && (r.type == IBV_QPT_DRIVER || one_in(2));
	r.what = some_garbage();
	peer_note("SOFTHCA_SEED=%llu, round %u: type %d%s%s%s, garbage 0x%x",
		  (unsigned long long)seed, round, r.type, r.far ? ", far" : "",
		  r.shut ? ", shut" : "", r.shared ? ", shared receives" : "", r.what);
}

static long size_of_said(void)
{
	FILE *f = fopen(said_file(SAID_NEAR), "re");
	long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : 0;

	if (f)
		fclose(f);
	return size;
}

static void one_round(unsigned int round)
{
	choose(round);
	said_from = size_of_said();
	make();
	for (unsigned int i = 0; i < EPISODES; i++)
		episode();
	unmake();
	nobody_armed(&a);
	nobody_armed(&b);
	witness_goes_on();
	witness_anew(&dev, side.pd[0]);
	plots_want_kept(&side.plots, 1 << PLOT_OPEN | 1 << PLOT_LOCAL | 1 << PLOT_RECEIVES);
	far_tell(far_fd, (struct far_order){ .op = FAR_CHECK });
}

static void make_mkey(void)
{
	struct mlx5dv_mkey_init_attr attr = { side.pd[0], MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, 4 };
	struct mlx5dv_mkey *mkey = mlx5dv_create_mkey(&attr);

	want(mkey);
	garbage.mkey = mkey->lkey;
}

/* How stores ring; +1: rings lie in memory of the program's, between pages without rights. */
enum { TRAPPED = 0, NAPS = 2, SPINS = 4, GUARDED = 1 };

static void given_garbage(int how)
{
	static const char *const doorbells[] = { "trap", "nap", "spin" };
	struct mlx5dv_ctx_allocators guards = { between_guards, stays, NULL };
	struct mlx5dv_ah of;
	struct mlx5dv_obj obj = { .ah = { .out = &of } };
	unsigned int times = cases_full() ? 10 * TIMES : TIMES;
	pid_t pid = peer_fork(far_main, NULL, &far_fd);

	seed += (uint64_t)how << 32;
	setenv("SOFTHCA_DOORBELL", doorbells[how / 2], 1);
	open_memory();
	far_meet(far_fd, &dev, true, &side);
	connected(IBV_QPT_RC, NULL);
	channel = ibv_create_comp_channel(dev.ctx);
	want(channel);
	make_mkey();
	if (how & GUARDED)
		want_eq(mlx5dv_set_context_attr(dev.ctx, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &guards),
			0);
	obj.ah.in = peer_ah(&dev, &(struct peer_addr){ .gid = dev.gid });
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
	garbage.av = *of.av;
	for (unsigned int i = 0; i < times; i++)
		one_round(i);
	witness_end();
	far_tell(far_fd, (struct far_order){ .op = FAR_QUIT });
	want_eq(peer_wait(pid), 0);
}

static const struct test_case cases[] = {
	CASE_ARG(given_garbage, TRAPPED),
	CASE_ARG(given_garbage, TRAPPED | GUARDED),
	CASE_ARG(given_garbage, NAPS | GUARDED),
	CASE_ARG(given_garbage, SPINS),
};

int main(void)
{
	const char *given = getenv("SOFTHCA_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) << 16 ^ (uint64_t)getpid();
	printf("# SOFTHCA_SEED=%llu\n", (unsigned long long)seed);
	return CASES_RUN(cases);
}
