// SPDX-License-Identifier: MIT
/* mlx5dv_init_obj(): a program that knows the formats alone. It writes WQEs and doorbell records,
 * reads CQEs in their ring, arms by the record, and calls nothing in between. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "mlx5dv/hand.h"
#include "verbs/said.h"

static void layouts(int arg)
{
	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	want_eq(a.qp.comp_mask, 0); /* nothing but the record is needed to ring */
	want_eq(a.qp.sq.stride, BLOCK);
	want(a.qp.sq.wqe_cnt >= WRS && !(a.qp.sq.wqe_cnt & (a.qp.sq.wqe_cnt - 1)));
	want_eq(a.qp.rq.stride, 2 * SEG);
	want_eq(a.qp.rq.wqe_cnt, WRS);
	want_eq(a.qp.bf.size, 0);
	want_eq((uintptr_t)a.qp.bf.reg % 4096, 0x800);
	want_eq((uintptr_t)a.qp.dbrec % 8, 0);
	want_eq(a.cq.cqe_cnt, 32);
	want_eq(a.cq.cqe_size, 64);
	want(a.cq.cq_uar && a.cq.cqn != b.cq.cqn);
}

enum { PLAIN, NAP, LARGE_ENTRIES };

/* Message after message, many times around each ring. NAP: nobody notices the stores.
 * LARGE_ENTRIES: of 128 bytes, whose second half is the entry. */
static void messages(int how)
{
	if (how == NAP)
		setenv("SOFTHCA_DOORBELL", "nap", 1);
	if (how == LARGE_ENTRIES)
		setenv("MLX5_CQE_SIZE", "128", 1);
	open_memory();
	connected(IBV_QPT_RC, NULL);
	want_eq(b.cq.cqe_size, how == LARGE_ENTRIES ? 128 : 64);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint16_t at = a.sent;

		pattern_fill(mem, LEN, i, 0);
		hand_recv(&b);
		hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, i);
		want_eq(be16toh(received_ok(&b, LEN, i).wqe_counter), i); /* it counts on */
		sent_ok(&a, at);
		want_eq(pattern_check(mem + HALF, LEN, i, 0), LEN);
	}
}

/* How many of a hundred stores were done when they returned. */
static unsigned int stores_at_once(void)
{
	unsigned int at_once = 0;
	uint8_t wqe[SEG];

	for (unsigned int i = 0; i < 100; i++) {
		mlx5dv_set_ctrl_seg((void *)wqe, a.sent, MLX5_OPCODE_NOP, 0, a.ep.qp->qp_num,
				    MLX5_WQE_CTRL_CQ_UPDATE, 1, 0, 0);
		memcpy(block(&a, a.sent++), wqe, sizeof(wqe));
		announce(&a, wqe);
		at_once += ready(&a);
		want(comes(&a, 10000));
		want_eq(mlx5dv_get_cqe_opcode(entry(&a)), MLX5_CQE_REQ);
		take(&a);
		sched_yield(); /* the engine thread, if it has the turn, can give it back */
	}
	return at_once;
}

/* The store to the page is the call: what it asks for has happened when it returns, unless the
 * engine thread has just that queue pair's turn. On a busy machine it can have many in a row: it
 * completes one, and the next store is there before it has given back the turn. If it had all of
 * them, hardly one in a hundred would be done at once. */
static void stores_ring(int arg)
{
	unsigned int best = 0;

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (unsigned int i = 0; i < ROUNDS && best < 50; i++) {
		unsigned int at_once = stores_at_once();

		best = at_once > best ? at_once : best;
	}
	want(best >= 50);
}

/* What names no queue pair, or is no doorbell, does nothing; a copy of a whole WQE rings, too. */
static void other_stores(int arg)
{
	volatile uint8_t *page;
	uint64_t wqe[BLOCK / sizeof(uint64_t)] = { 0 };

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	page = (uint8_t *)a.qp.bf.reg - 0x800;
	for (unsigned int at = 0; at < 4096; at += 8)
		*(volatile uint64_t *)(page + at) = ~UINT64_C(0) / (at + 1);
	*(page + 4095) = 1;
	*(volatile uint32_t *)(page + 0x804) = htobe32(a.ep.qp->qp_num << 8);
	for (uint32_t i = 0; i < 10; i++) {
		uint16_t at = a.sent;
		const void *first;

		hand_recv(&b);
		first = write_send(&a, NULL, MLX5_WQE_CTRL_CQ_UPDATE, i);
		record(&a.qp.dbrec[MLX5_SND_DBR], a.sent);
		memcpy(wqe, first, sizeof(wqe));
		memcpy(a.qp.bf.reg, wqe, sizeof(wqe));
		received_ok(&b, LEN, i);
		sent_ok(&a, at);
	}
}

static void through_reset(struct hand *h)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	want_eq(ibv_modify_qp(h->ep.qp, &reset, IBV_QP_STATE), 0);
	h->sent = h->received = 0;
}

/* As many messages again: the record says the same as before. Nobody notices the stores, and the
 * program is seldom so slow that the engine thread looks at the records meanwhile. */
static void the_same_after_reset(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC };

	(void)arg;
	setenv("SOFTHCA_DOORBELL", "nap", 1);
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint16_t at = a.sent;

		hand_recv(&b);
		hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, i);
		received_ok(&b, LEN, i);
		sent_ok(&a, at);
		through_reset(&a);
		through_reset(&b);
		peer_connect(&a.ep, &o);
		peer_connect(&b.ep, &o);
	}
}

static void post(uint8_t opcode, const void *segs, size_t n)
{
	struct hand_op op = { opcode, MLX5_WQE_CTRL_CQ_UPDATE, 0 };

	announce(&a, write_wqe(&a, &op, segs, n));
}

static void posted_ok(uint8_t opcode, uint16_t at, uint32_t len)
{
	struct mlx5_cqe64 e = take(&a);

	want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_REQ);
	want_eq(be32toh(e.sop_drop_qpn), (uint32_t)opcode << 24 | a.ep.qp->qp_num);
	want_eq(be16toh(e.wqe_counter), at);
	if (len)
		want_eq(be32toh(e.byte_cnt), len);
}

/* The index that WQEs and entries have is one of 16 bits, and goes on behind its end. */
static void around_the_index(int arg)
{
	enum { MANY = 0x10000 + 3 * WRS };

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (uint32_t i = 0; i < MANY; i += WRS) {
		uint16_t last = (uint16_t)(i + WRS - 1);
		void *ctrl = NULL;

		while (a.sent != (uint16_t)(i + WRS)) {
			ctrl = block(&a, a.sent);
			mlx5dv_set_ctrl_seg(ctrl, a.sent, MLX5_OPCODE_NOP, 0, a.ep.qp->qp_num,
					    a.sent == last ? MLX5_WQE_CTRL_CQ_UPDATE : 0, 1, 0, 0);
			a.sent++;
		}
		announce(&a, ctrl);
		posted_ok(MLX5_OPCODE_NOP, last, 0);
	}
	hand_recv(&b);
	hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, 9);
	received_ok(&b, LEN, 9);
	sent_ok(&a, (uint16_t)MANY);
}

struct remote_work {
	struct mlx5_wqe_raddr_seg to;
	union {
		struct {
			struct mlx5_wqe_atomic_seg with;
			struct mlx5_wqe_data_seg result;
		} atomic;
		struct mlx5_wqe_data_seg data[2];
	};
};

/* Work on the peer's memory, which is this program's: the second half of @mem. */
static void operations(int arg)
{
	struct remote_work w = { 0 };
	uint64_t *far, *near;
	struct ibv_mr *all;

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	all = ibv_reg_mr(dev.pd, mem, BYTES,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				 IBV_ACCESS_REMOTE_ATOMIC);
	want(all);
	far = (uint64_t *)(mem + HALF);
	near = (uint64_t *)(mem + HALF / 2);
	w.to.raddr = htobe64((uintptr_t)far);
	w.to.rkey = htobe32(all->rkey);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint16_t at = a.sent;

		pattern_fill(mem, LEN, i, 0);
		mlx5dv_set_data_seg(&w.data[0], 40, mr->lkey, (uintptr_t)mem);
		mlx5dv_set_data_seg(&w.data[1], LEN - 40, mr->lkey, (uintptr_t)mem + 40);
		post(MLX5_OPCODE_RDMA_WRITE, &w, sizeof(w.to) + sizeof(w.data));
		posted_ok(MLX5_OPCODE_RDMA_WRITE, at, 0);
		want_eq(pattern_check(mem + HALF, LEN, i, 0), LEN);
		at = a.sent;
		mlx5dv_set_data_seg(&w.data[0], LEN, mr->lkey, (uintptr_t)near);
		post(MLX5_OPCODE_RDMA_READ, &w, sizeof(w.to) + sizeof(w.data[0]));
		posted_ok(MLX5_OPCODE_RDMA_READ, at, LEN);
		want_eq(pattern_check((uint8_t *)near, LEN, i, 0), LEN);
		at = a.sent;
		*far = 100;
		w.atomic.with.swap_add = htobe64(i);
		mlx5dv_set_data_seg(&w.atomic.result, 8, mr->lkey, (uintptr_t)near);
		post(MLX5_OPCODE_ATOMIC_FA, &w, sizeof(w.to) + sizeof(w.atomic));
		posted_ok(MLX5_OPCODE_ATOMIC_FA, at, 8);
		want(*near == 100 && *far == 100 + i);
		at = a.sent;
		w.atomic.with.swap_add = htobe64(7);
		w.atomic.with.compare = htobe64(100); /* equal the first time */
		post(MLX5_OPCODE_ATOMIC_CS, &w, sizeof(w.to) + sizeof(w.atomic));
		posted_ok(MLX5_OPCODE_ATOMIC_CS, at, 8);
		want(*near == 100 + i && *far == (i ? 100 + i : 7));
	}
}

/* Several are announced at once, and only the last of them is signaled. */
static void bursts(int arg)
{
	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (uint32_t i = 0; i < ROUNDS / 4; i++) {
		uint16_t at = a.sent;
		const void *first = NULL;

		for (int k = 0; k < 3; k++)
			write_recv(&b);
		record(&b.qp.dbrec[MLX5_RCV_DBR], b.received);
		for (uint32_t k = 0; k < 3; k++) {
			at = a.sent;
			first = write_send(&a, NULL, k == 2 ? MLX5_WQE_CTRL_CQ_UPDATE : 0, k);
		}
		announce(&a, first);
		for (uint32_t k = 0; k < 3; k++)
			received_ok(&b, LEN, k);
		sent_ok(&a, at);
	}
}

/* The sender is told that there is no receive; the record alone says when there is. */
static void a_late_receive(int arg)
{
	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (uint32_t i = 0; i < 5; i++) {
		uint16_t at = a.sent;

		hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, i);
		want(!comes(&a, 30));
		hand_recv(&b);
		received_ok(&b, LEN, i);
		sent_ok(&a, at);
	}
}

static void datagrams(int arg)
{
	struct ibv_ah *ah;
	struct mlx5dv_ah of;
	struct mlx5_wqe_av av;
	struct mlx5dv_obj obj = { .ah = { .out = &of } };

	(void)arg;
	open_memory();
	connected(IBV_QPT_UD, NULL);
	ah = peer_ah(&dev, &b.ep.mine);
	obj.ah.in = ah;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
	av = *of.av;
	av.dqp_dct |= htobe32(b.ep.mine.qpn);
	av.key.qkey.qkey = htobe32(0x11111111);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint16_t at = a.sent;

		pattern_fill(mem, LEN, i, 0);
		hand_recv(&b);
		announce(&a, write_send(&a, &av, MLX5_WQE_CTRL_CQ_UPDATE, i));
		want_eq(be32toh(received_ok(&b, LEN + 40, i).flags_rqpn) & 0xffffff,
			a.ep.qp->qp_num);
		sent_ok(&a, at);
		want_eq(pattern_check(mem + HALF + 40, LEN, i, 0), LEN);
	}
	want_eq(ibv_destroy_ah(ah), 0);
}

static struct mlx5dv_srq shared;

static void *slot(uint32_t i)
{
	return (uint8_t *)shared.buf + (size_t)i * shared.stride;
}

/* Slots come and go by the links that the program writes: the lowest free one last. */
static void shared_receives(int arg)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 7, .max_sge = 1 } };
	struct mlx5dv_obj obj = { .srq = { .out = &shared } };
	uint16_t posted = 0;

	(void)arg;
	open_memory();
	obj.srq.in = ibv_create_srq(dev.pd, &attr);
	want(obj.srq.in);
	shared.comp_mask = MLX5DV_SRQ_MASK_SRQN | 2;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
	want_eq(shared.comp_mask, MLX5DV_SRQ_MASK_SRQN);
	want_eq(shared.stride, 32);
	want_eq(shared.head, 0);
	want_eq(shared.tail, 7);
	connected(IBV_QPT_RC, obj.srq.in);
	want_eq(b.qp.rq.wqe_cnt, 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct mlx5_wqe_srq_next_seg *free_slot;
		struct mlx5_cqe64 e;
		uint16_t at = a.sent, used;

		if (i % 2) /* the sender waits for it */
			hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, i);
		free_slot = slot(shared.head);
		mlx5dv_set_data_seg((void *)(free_slot + 1), HALF, mr->lkey, (uintptr_t)mem + HALF);
		used = (uint16_t)shared.head;
		shared.head = be16toh(free_slot->next_wqe_index);
		record(shared.dbrec, ++posted);
		if (i % 2 == 0)
			hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, i);
		e = received_ok(&b, LEN, i);
		want_eq(be16toh(e.wqe_counter), used);
		sent_ok(&a, at);
		((struct mlx5_wqe_srq_next_seg *)slot(shared.tail))->next_wqe_index = e.wqe_counter;
		shared.tail = be16toh(e.wqe_counter);
	}
}

/* --- arming --- */

enum { SOLICITED = 1 << 24 };

static void arm(struct hand *h, uint32_t what, uint32_t sn)
{
	uint32_t value = (sn & 3) << 28 | what | (h->polled & 0xffffff);

	record(&h->cq.dbrec[1], value);
	*(volatile uint64_t *)((uint8_t *)h->cq.cq_uar + 0x20) =
		htobe64((uint64_t)value << 32 | h->cq.cqn);
}

static bool event(struct hand *h, int ms)
{
	struct pollfd p = { .fd = h->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&p, 1, ms) != 1)
		return false;
	want_eq(ibv_get_cq_event(h->channel, &cq, &context), 0);
	want(cq == h->ep.rcq);
	ibv_ack_cq_events(cq, 1);
	return true;
}

/* @late: the entry is there before the program arms, as when both happen at once. */
static void arms(int late)
{
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (uint32_t i = 0; i < 20; i++) {
		hand_recv(&b);
		if (!late)
			arm(&b, 0, i);
		hand_send(&a, 0, i);
		if (late) {
			want(comes(&b, 10000));
			arm(&b, 0, i);
		}
		want(event(&b, 10000));
		received_ok(&b, LEN, i);
	}
	for (uint32_t i = 0; i < 40; i++) { /* now and then the record is looked at again */
		hand_recv(&b);
		hand_send(&a, 0, i);
		received_ok(&b, LEN, i);
	}
	want(!event(&b, 0)); /* one for each arm */
}

/* How often the other threads of this process have gone to sleep */
static long others_slept(void)
{
	struct rusage all, mine;

	want(!getrusage(RUSAGE_SELF, &all) && !getrusage(RUSAGE_THREAD, &mine));
	return all.ru_nvcsw - mine.ru_nvcsw;
}

/* Arming is a call, too: it needs no other thread. The entry is there before, so each arm raises an
 * event; the engine thread, which looks at records now and then, sleeps far less often than that,
 * unless this thread had to wait for a core: so a round fits into a time slice. */
static void arms_without_others(void)
{
	enum { ARMS = 200, ATTEMPTS = 100 };
	long least = ARMS;

	hand_recv(&b);
	hand_send(&a, 0, 1);
	want(comes(&b, 10000));
	for (unsigned int i = 0; i < ATTEMPTS && least > ARMS / 20; i++) {
		long before = others_slept(), slept;

		for (uint32_t k = 0; k < ARMS; k++) {
			arm(&b, 0, k);
			want(event(&b, 10000));
		}
		slept = others_slept() - before;
		least = slept < least ? slept : least;
	}
	want(least <= ARMS / 20);
}

static void arming_wakes_nobody(int arg)
{
	(void)arg;
	if (cases_sanitized())
		case_skip("its stack for signals is too small to ring on");
	open_memory();
	connected(IBV_QPT_RC, NULL);
	arms_without_others();
}

static void destroys_both(void)
{
	want_eq(ibv_destroy_qp(a.ep.qp) | ibv_destroy_qp(b.ep.qp), 0);
	want_eq(ibv_destroy_cq(a.ep.scq) | ibv_destroy_cq(b.ep.scq), 0);
}

/* @destroyed: those that it inherits. Its CQ's number differs from an inherited one's by a multiple
 * of 64, the places in the table of CQs that stores can arm. */
static void arming_in_a_child(int destroyed)
{
	enum { PLACES = 64 };
	struct peer_opts o = { .type = IBV_QPT_RC };
	uint32_t number;
	int status;
	pid_t child;

	if (cases_sanitized())
		case_skip("its stack for signals is too small to ring on");
	open_memory();
	connected(IBV_QPT_RC, NULL);
	number = b.cq.cqn;
	child = fork();
	if (!child) {
		if (destroyed)
			destroys_both();
		open_memory();
		for (int i = 0; i < 10 * PLACES && (!i || (b.cq.cqn - number) % PLACES); i++) {
			memset(&b, 0, sizeof(b));
			endpoint(&b, IBV_QPT_RC, NULL);
		}
		want_eq((b.cq.cqn - number) % PLACES, 0);
		memset(&a, 0, sizeof(a));
		endpoint(&a, IBV_QPT_RC, NULL);
		a.ep.theirs = b.ep.mine;
		b.ep.theirs = a.ep.mine;
		peer_connect(&a.ep, &o);
		peer_connect(&b.ep, &o);
		arms_without_others();
		_exit(0);
	}
	want(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
}

enum { EARLY, LATE, LATE_AND_LARGE };

/* The same value twice is armed twice: the sequence number need not change. */
static void arms_for_solicited(int late)
{
	if (late == LATE_AND_LARGE)
		setenv("MLX5_CQE_SIZE", "128", 1);
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (uint32_t i = 0; i < 10; i++) {
		hand_recv(&b);
		hand_recv(&b);
		if (!late)
			arm(&b, SOLICITED, 0);
		hand_send(&a, 0, 1);
		hand_send(&a, MLX5_WQE_CTRL_SOLICITED, 2);
		if (late) {
			want(comes(&b, 10000));
			arm(&b, SOLICITED, 0);
		}
		want(event(&b, 10000));
		received_ok(&b, LEN, 1);
		want(mlx5dv_get_cqe_opcode(entry(&b)) != MLX5_CQE_INVALID);
		received_ok(&b, LEN, 2);
	}
	want(!event(&b, 0));
}

/* A thread that waits in the call is told, too. */
static void a_blocked_thread(int arg)
{
	struct ibv_cq *cq;
	void *context;

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (uint32_t i = 0; i < 10; i++) {
		hand_recv(&b);
		arm(&b, 0, i);
		hand_send(&a, 0, i);
		want_eq(ibv_get_cq_event(b.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		received_ok(&b, LEN, i);
	}
}

/* --- what is not as it should be --- */

/* Entries are the program's: none is taken out with its queue pair. */
static void entries_stay(int arg)
{
	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	for (uint32_t i = 0; i < 3; i++) {
		hand_recv(&b);
		hand_send(&a, 0, i);
	}
	b.polled = 2;
	want(comes(&b, 10000));
	b.polled = 0;
	want_eq(ibv_destroy_qp(b.ep.qp), 0);
	want_eq(b.cq.dbrec[0], 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct mlx5_cqe64 e = take(&b);

		want_eq(mlx5dv_get_cqe_opcode(&e), MLX5_CQE_RESP_SEND_IMM);
		want_eq(be32toh(e.imm_inval_pkey), i);
	}
	want_eq(ibv_resize_cq(b.ep.rcq, 100), EINVAL);
	want_eq(ibv_destroy_cq(b.ep.rcq), 0);
}

static struct { /* shared with a thread that would destroy what is in use */
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	bool stop; /* atomic */
} busy;

static void *destroys(void *arg)
{
	while (!__atomic_load_n(&busy.stop, __ATOMIC_ACQUIRE)) {
		want_eq(ibv_destroy_cq(busy.cq), EBUSY);
		want_eq(ibv_destroy_srq(busy.srq), EBUSY);
	}
	return arg;
}

/* A CQ or an SRQ that could not be destroyed was the program's meanwhile. */
static void while_it_is_busy(int arg)
{
	enum { TIMES = 1000 };
	struct ibv_qp_init_attr qa = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 7, .max_sge = 2 } };
	struct ibv_srq_attr larger = { .max_wr = 100 };
	struct mlx5dv_srq out = { 0 };
	struct mlx5dv_obj obj = { .srq = { .out = &out } };
	pthread_t thread;

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	hand_messages(20);
	busy.cq = qa.send_cq = qa.recv_cq = a.ep.scq;
	qa.srq = busy.srq = obj.srq.in = ibv_create_srq(dev.pd, &attr);
	want(busy.srq && ibv_create_qp(dev.pd, &qa));
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
	want_eq(pthread_create(&thread, NULL, destroys, NULL), 0);
	for (int i = 0; i < TIMES; i++) {
		struct ibv_qp *qp = ibv_create_qp(dev.pd, &qa);

		want(qp);
		want_eq(ibv_destroy_qp(qp), 0);
		want_eq(be32toh(a.cq.dbrec[0]), a.polled);
		want_errno(ibv_resize_cq(busy.cq, 100), EINVAL);
		want_eq(ibv_modify_srq(busy.srq, &larger, IBV_SRQ_MAX_WR), EINVAL);
	}
	__atomic_store_n(&busy.stop, true, __ATOMIC_RELEASE);
	want_eq(pthread_join(thread, NULL), 0);
	hand_messages(20);
}

enum { GARBAGE, NO_SEGMENTS, BEYOND_THE_RING, PAST_THE_END };

/* Rings that no library has written: the queue fails, its peer's stays as it was. */
static void wrong(int how)
{
	uint8_t *wqe;

	open_memory();
	connected(IBV_QPT_RC, NULL);
	wqe = block(&a, 0);
	memset(a.qp.sq.buf, how == GARBAGE ? 0xa5 : 0, (size_t)a.qp.sq.wqe_cnt * BLOCK);
	if (how == PAST_THE_END) /* more segments than were announced */
		mlx5dv_set_ctrl_seg((void *)wqe, 0, MLX5_OPCODE_SEND, 0, a.ep.qp->qp_num, 8, 63, 0,
				    0);
	a.sent = how == BEYOND_THE_RING ? 0x7fff : 1;
	record(&a.qp.dbrec[MLX5_SND_DBR], a.sent);
	errs(&a);
	hand_recv(&b);
	hand_send(&b, MLX5_WQE_CTRL_CQ_UPDATE, 1); /* into the void, but it is taken */
	record(&a.qp.dbrec[MLX5_SND_DBR], 0); /* and back */
	want_eq(b.ep.qp->state, IBV_QPS_RTS);
	want_eq(ibv_destroy_qp(a.ep.qp), 0);
	want_eq(ibv_destroy_qp(b.ep.qp), 0);
}

static const uint64_t no_object[] = { 0, 1 << 7, 1ULL << 63 };
static const uint64_t types[] = { MLX5DV_OBJ_QP, MLX5DV_OBJ_CQ, MLX5DV_OBJ_SRQ, MLX5DV_OBJ_RWQ,
				  MLX5DV_OBJ_DM, MLX5DV_OBJ_AH, MLX5DV_OBJ_PD };

static void refusals(int arg)
{
	struct mlx5dv_obj none = { 0 };
	struct mlx5dv_pd pd;

	(void)arg;
	open_memory();
	want_eq(mlx5dv_init_obj(NULL, MLX5DV_OBJ_PD), EINVAL);
	for (size_t i = 0; i < sizeof(no_object) / sizeof(no_object[0]); i++)
		want_eq(mlx5dv_init_obj(&none, no_object[i]), EINVAL);
	said_want(SAID_NEAR, "mlx5dv_init_obj: obj_type 0x8000000000000000 names no object; pass "
			     "MLX5DV_OBJ_*");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		want_eq(mlx5dv_init_obj(&none, types[i]), EINVAL);
	said_want(SAID_NEAR, "mlx5dv_init_obj: obj_type has the bit 0x40, and its in is NULL; give "
			     "both in and out");
	none.pd.out = &pd;
	want_eq(mlx5dv_init_obj(&none, MLX5DV_OBJ_PD), EINVAL);
	none.pd.in = dev.pd;
	want_eq(mlx5dv_init_obj(&none, MLX5DV_OBJ_PD | MLX5DV_OBJ_AH), EINVAL);
}

/* Device memory, a protection domain, a work queue. */
static void others(int arg)
{
	struct ibv_alloc_dm_attr da = { .length = 8192 };
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ, .max_wr = 5, .max_sge = 3 };
	struct mlx5dv_dm dm = { .comp_mask = ~0ULL };
	struct mlx5dv_pd pd = { .comp_mask = ~0ULL };
	struct mlx5dv_rwq wq = { .comp_mask = ~0ULL };
	struct mlx5dv_obj obj = { .dm = { .out = &dm }, .pd = { .out = &pd }, .rwq.out = &wq };
	uint8_t back[64];

	(void)arg;
	open_memory();
	obj.pd.in = wa.pd = dev.pd;
	obj.dm.in = ibv_alloc_dm(dev.ctx, &da);
	wa.cq = ibv_create_cq(dev.ctx, 8, NULL, NULL, 0);
	obj.rwq.in = ibv_create_wq(dev.ctx, &wa);
	want(obj.dm.in && wa.cq && obj.rwq.in);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_DM | MLX5DV_OBJ_PD | MLX5DV_OBJ_RWQ), 0);
	want(pd.pdn != 0 && pd.comp_mask == 0);
	want(wq.buf && wq.dbrec && wq.comp_mask == 0);
	want_eq(wq.wqe_cnt, 8);
	want_eq(wq.stride, 4 * SEG);
	want_eq(dm.length, 8192);
	want_eq(dm.comp_mask, 0);
	pattern_fill(dm.buf, dm.length, 5, 0);
	want_eq(ibv_memcpy_from_dm(back, obj.dm.in, 4096, sizeof(back)), 0);
	want_eq(pattern_check(back, sizeof(back), 5, 4096), sizeof(back));
}

static const struct test_case cases[] = {
	CASE(layouts),
	CASE_ARG(messages, PLAIN),
	CASE_ARG(messages, NAP),
	CASE_ARG(messages, LARGE_ENTRIES),
	CASE(around_the_index),
	CASE(operations),
	CASE(the_same_after_reset),
	CASE(stores_ring),
	CASE(other_stores),
	CASE(bursts),
	CASE(a_late_receive),
	CASE(datagrams),
	CASE(shared_receives),
	CASE_ARG(arms, false),
	CASE_ARG(arms, true),
	CASE(arming_wakes_nobody),
	CASE_ARG(arming_in_a_child, false),
	CASE_ARG(arming_in_a_child, true),
	CASE_ARG(arms_for_solicited, EARLY),
	CASE_ARG(arms_for_solicited, LATE),
	CASE_ARG(arms_for_solicited, LATE_AND_LARGE),
	CASE(a_blocked_thread),
	CASE(entries_stay),
	CASE(while_it_is_busy),
	CASE_ARG(wrong, GARBAGE),
	CASE_ARG(wrong, NO_SEGMENTS),
	CASE_ARG(wrong, BEYOND_THE_RING),
	CASE_ARG(wrong, PAST_THE_END),
	CASE(refusals),
	CASE(others),
};

int main(void)
{
	return CASES_RUN(cases);
}
