// SPDX-License-Identifier: MIT
/* Messages in lockstep between two processes, for callgrind to count: instructions RC|UC|UD
 * send|write|read|atomic|mkey SIZE COUNT BATCH post|wr|raw|list|configure. What callgrind counts
 * stands in the functions step_*(); waiting for the other process stands outside of them.
 *
 * The last word says by which calls the sender posts: ibv_post_send(), ibv_wr_*(), or
 * mlx5dv_wr_raw_wqe() with a WQE that it has written itself. With mkey, which no message is, the
 * sender lays an mkey anew over SIZE bytes in four parts: by the last, by mlx5dv_wr_mr_list() or by
 * mlx5dv_wr_mkey_configure() with its setters.
 *
 * A batch is posted by as many calls; then the receiver polls until it has the messages and once
 * more, which lets its ACK go; then the sender polls until its completions are there.
 *
 * Each process prints "ready PID" when its queue pair is connected, and polls until it can read a
 * byte from its standard input: meanwhile instructions.py stops the engine threads, which would
 * otherwise do part of the work, uncounted. "done PID", the same again: it lets them go. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/mlx5dv.h>
#include "verbs/peer.h"

enum { DEPTH = 512, WARM_UP = 64, PARTS = 4, RIGHTS = IBV_ACCESS_LOCAL_WRITE };

struct run {
	enum ibv_qp_type type;
	enum ibv_wr_opcode op;
	uint32_t size;
	unsigned int count, batch;
	_Atomic uint32_t *turn; /* even: the sender's, odd: the receiver's */
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	void (*post)(struct run *r);
	struct ibv_qp_ex *ex;
	struct mlx5dv_qp_ex *dv;
	struct mlx5dv_mkey *mkey;
};

static void post_receive(struct run *r)
{
	struct ibv_sge sge = { (uintptr_t)r->mr->addr, r->size + 40, r->mr->lkey };

	peer_recv(&r->ep, 0, &sge, 1);
}

static void by_post_send(struct run *r)
{
	struct ibv_sge sge = { (uintptr_t)r->mr->addr, r->size, r->mr->lkey };
	struct ibv_send_wr wr = { .opcode = r->op, .sg_list = &sge, .num_sge = 1 }, *bad;

	wr.send_flags = IBV_SEND_SIGNALED;
	if (r->ah) {
		wr.wr.ud.ah = r->ah;
		wr.wr.ud.remote_qpn = r->ep.theirs.qpn;
		wr.wr.ud.remote_qkey = 0x11111111;
	} else if (r->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = r->ep.theirs.va;
		wr.wr.atomic.rkey = r->ep.theirs.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = r->ep.theirs.va;
		wr.wr.rdma.rkey = r->ep.theirs.rkey;
	}
	if (ibv_post_send(r->ep.qp, &wr, &bad))
		die("ibv_post_send");
}

static void complete(struct run *r)
{
	if (ibv_wr_complete(r->ex))
		die("ibv_wr_complete");
}

static void by_wr(struct run *r)
{
	ibv_wr_start(r->ex);
	r->ex->wr_id = 0;
	r->ex->wr_flags = IBV_SEND_SIGNALED;
	if (r->op == IBV_WR_SEND)
		ibv_wr_send(r->ex);
	else
		ibv_wr_rdma_write(r->ex, r->ep.theirs.rkey, r->ep.theirs.va);
	ibv_wr_set_sge(r->ex, r->mr->lkey, (uintptr_t)r->mr->addr, r->size);
	complete(r);
}

static void by_raw(struct run *r)
{
	struct {
		struct mlx5_wqe_ctrl_seg ctrl;
		union {
			struct mlx5_wqe_raddr_seg to;
			struct mlx5_wqe_data_seg first;
		};
		struct mlx5_wqe_data_seg data;
	} w;
	bool send = r->op == IBV_WR_SEND;

	mlx5dv_set_ctrl_seg(&w.ctrl, 0, send ? MLX5_OPCODE_SEND : MLX5_OPCODE_RDMA_WRITE, 0, 0,
			    MLX5_WQE_CTRL_CQ_UPDATE, send ? 2 : 3, 0, 0);
	if (!send)
		w.to = (struct mlx5_wqe_raddr_seg){ htobe64(r->ep.theirs.va),
						    htobe32(r->ep.theirs.rkey), 0 };
	mlx5dv_set_data_seg(send ? &w.first : &w.data, r->size, r->mr->lkey,
			    (uintptr_t)r->mr->addr);
	ibv_wr_start(r->ex);
	r->ex->wr_id = 0;
	mlx5dv_wr_raw_wqe(r->dv, &w);
	complete(r);
}

static void parts_of(const struct run *r, struct ibv_sge sg[PARTS])
{
	uint32_t len = r->size / PARTS;

	for (unsigned int i = 0; i < PARTS; i++)
		sg[i] = (struct ibv_sge){ (uintptr_t)r->mr->addr + i * len, len, r->mr->lkey };
}

static void start_mkey(struct run *r)
{
	ibv_wr_start(r->ex);
	r->ex->wr_id = 0;
	r->ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
}

static void mkey_by_list(struct run *r)
{
	struct ibv_sge sg[PARTS];

	parts_of(r, sg);
	start_mkey(r);
	mlx5dv_wr_mr_list(r->dv, r->mkey, RIGHTS, PARTS, sg);
	complete(r);
}

static void mkey_by_configure(struct run *r)
{
	struct mlx5dv_mkey_conf_attr none = { 0 };
	struct ibv_sge sg[PARTS];

	parts_of(r, sg);
	start_mkey(r);
	mlx5dv_wr_mkey_configure(r->dv, r->mkey, 2, &none);
	mlx5dv_wr_set_mkey_access_flags(r->dv, RIGHTS);
	mlx5dv_wr_set_mkey_layout_list(r->dv, PARTS, sg);
	complete(r);
}

static void mkey_by_raw(struct run *r)
{
	struct {
		struct mlx5_wqe_ctrl_seg ctrl;
		struct mlx5_wqe_umr_ctrl_seg umr;
		struct mlx5_wqe_mkey_context_seg ctx;
		struct mlx5_wqe_umr_klm_seg list[PARTS];
	} w = { 0 };
	struct ibv_sge sg[PARTS];

	parts_of(r, sg);
	mlx5dv_set_ctrl_seg(&w.ctrl, 0, MLX5_OPCODE_UMR, 0, 0, MLX5_WQE_CTRL_CQ_UPDATE,
			    sizeof(w) / 16, 0, htobe32(r->mkey->lkey));
	w.umr.flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	w.umr.klm_octowords = htobe16(PARTS);
	w.umr.mkey_mask = htobe64(
		MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE | MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE);
	w.ctx.access_flags = 4 | 8; /* read and written locally */
	w.ctx.qpn_mkey = htobe32(0xffffff00 | (r->mkey->lkey & 0xff));
	w.ctx.len = htobe64(r->size);
	for (unsigned int i = 0; i < PARTS; i++)
		w.list[i] =
			(struct mlx5_wqe_umr_klm_seg){ htobe32(sg[i].length), htobe32(sg[i].lkey),
						       htobe64(sg[i].addr) };
	ibv_wr_start(r->ex);
	r->ex->wr_id = 0;
	mlx5dv_wr_raw_wqe(r->dv, &w);
	complete(r);
}

static void post_send(struct run *r)
{
	r->post(r);
}

static int poll(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	if (n < 0 || (n && wc.status))
		fail("completion: %s", n < 0 ? "no poll" : ibv_wc_status_str(wc.status));
	return n;
}

/* What callgrind counts: not inlined, known by name to instructions.py. */
__attribute__((noinline)) void step_receive(struct run *r);
__attribute__((noinline)) void step_send(struct run *r);
__attribute__((noinline)) int step_poll(struct ibv_cq *cq);

void step_receive(struct run *r)
{
	post_receive(r);
}

void step_send(struct run *r)
{
	post_send(r);
}

int step_poll(struct ibv_cq *cq)
{
	return poll(cq);
}

static const struct steps {
	void (*receive)(struct run *r);
	void (*send)(struct run *r);
	int (*poll)(struct ibv_cq *cq);
} uncounted = { post_receive, post_send, poll }, counted = { step_receive, step_send, step_poll };

static void collect(struct run *r, const struct steps *step)
{
	for (unsigned int got = 0; got < r->batch;)
		got += (unsigned int)step->poll(r->ep.scq);
}

static void await(struct run *r, uint32_t turn)
{
	while (atomic_load(r->turn) != turn) {
		/* no system call: callgrind would let the engine thread run */
	}
}

static void pass(struct run *r)
{
	atomic_fetch_add(r->turn, 1);
}

/* A thread that polls keeps the engine thread asleep, and senders from waking it. */
static void await_answer(struct run *r, const char *word)
{
	struct ibv_wc wc;
	char go;

	printf("%s %d\n", word, (int)getpid());
	fflush(stdout);
	while (read(0, &go, 1) != 1)
		if (ibv_poll_cq(r->ep.scq, 1, &wc))
			fail("a completion when none is due");
}

static void make_mkey(struct run *r)
{
	struct mlx5dv_mkey_init_attr a = { r->dev.pd, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, PARTS };

	r->mkey = mlx5dv_create_mkey(&a);
	if (!r->mkey)
		die("mlx5dv_create_mkey");
}

static void ready(struct run *r, int fd)
{
	struct peer_opts o = { .type = r->type,
			       .cap = { DEPTH, DEPTH, 1, 1, 0 },
			       .cqe = 2 * DEPTH,
			       .send_ops =
				       r->post == by_post_send
					       ? 0
					       : IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE };
	size_t len = (r->size + 4096) & ~(size_t)4095;

	if (r->op == IBV_WR_DRIVER1)
		o.cap.max_inline_data = 256;
	peer_open(&r->dev);
	peer_ep_create(&r->dev, &o, &r->ep);
	if (o.send_ops) {
		r->ex = ibv_qp_to_qp_ex(r->ep.qp);
		r->dv = r->ex ? mlx5dv_qp_ex_from_ibv_qp_ex(r->ex) : NULL;
		if (!r->dv)
			die("mlx5dv_qp_ex_from_ibv_qp_ex");
	}
	r->mr = ibv_reg_mr(r->dev.pd, peer_memory(len, false), len,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!r->mr)
		die("ibv_reg_mr");
	if (r->op == IBV_WR_DRIVER1)
		make_mkey(r);
	r->ep.mine.va = (uintptr_t)r->mr->addr;
	r->ep.mine.rkey = r->mr->rkey;
	peer_ep_swap(fd, &r->ep);
	peer_connect(&r->ep, &o);
	if (r->type == IBV_QPT_UD)
		r->ah = peer_ah(&r->dev, &r->ep.theirs);
	for (unsigned int i = 0; i < 2 * r->batch; i++)
		post_receive(r);
	peer_sync(fd);
}

static void receive(struct run *r, const struct steps *step, unsigned int rounds)
{
	for (uint32_t i = 0; i < rounds; i++) {
		await(r, 2 * i + 1);
		if (r->op == IBV_WR_SEND) {
			collect(r, step);
			for (unsigned int k = 0; k < r->batch; k++)
				step->receive(r);
		}
		step->poll(r->ep.scq);
		pass(r);
	}
}

static void send_all(struct run *r, const struct steps *step, unsigned int rounds)
{
	for (uint32_t i = 0; i < rounds; i++) {
		for (unsigned int k = 0; k < r->batch; k++)
			step->send(r);
		pass(r);
		await(r, 2 * i + 2);
		collect(r, step);
	}
}

/* The first rounds make the contact between the processes, which is the engine threads' work. */
static void run(struct run *r, int fd,
		void (*half)(struct run *r, const struct steps *step, unsigned int rounds))
{
	ready(r, fd);
	half(r, &uncounted, WARM_UP);
	await_answer(r, "ready");
	peer_sync(fd);
	atomic_store(r->turn, 0);
	peer_sync(fd);
	half(r, &counted, r->count / r->batch);
	await_answer(r, "done");
}

static int receiver(int fd, void *arg)
{
	run(arg, fd, receive);
	return 0;
}

static enum ibv_wr_opcode opcode_of(const char *name)
{
	return !strcmp(name, "send")	? IBV_WR_SEND
	       : !strcmp(name, "write") ? IBV_WR_RDMA_WRITE
	       : !strcmp(name, "read")	? IBV_WR_RDMA_READ
	       : !strcmp(name, "mkey")	? IBV_WR_DRIVER1
					: IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static const struct way {
	const char *name;
	bool mkey;
	void (*post)(struct run *r);
} ways[] = {
	{ "post", false, by_post_send },
	{ "wr", false, by_wr },
	{ "raw", false, by_raw },
	{ "list", true, mkey_by_list },
	{ "configure", true, mkey_by_configure },
	{ "raw", true, mkey_by_raw },
};

static void (*way_of(const char *name, bool mkey))(struct run *r)
{
	for (unsigned int i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (ways[i].mkey == mkey && !strcmp(ways[i].name, name))
			return ways[i].post;
	fail("%s: no way to post it", name);
}

int main(int argc, char **argv)
{
	static struct run r;
	pid_t child;
	int fd;

	if (argc != 7)
		fail("usage: instructions RC|UC|UD send|write|read|atomic|mkey SIZE COUNT BATCH "
		     "post|wr|raw|list|configure");
	r = (struct run){
		.type = !strcmp(argv[1], "RC")	 ? IBV_QPT_RC
			: !strcmp(argv[1], "UC") ? IBV_QPT_UC
						 : IBV_QPT_UD,
		.op = opcode_of(argv[2]),
		.size = (uint32_t)strtoul(argv[3], NULL, 0),
		.count = (unsigned int)strtoul(argv[4], NULL, 0),
		.batch = (unsigned int)strtoul(argv[5], NULL, 0),
		.post = way_of(argv[6], opcode_of(argv[2]) == IBV_WR_DRIVER1),
	};
	if (fcntl(0, F_SETFL, O_NONBLOCK))
		die("fcntl");
	r.turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r.turn == MAP_FAILED)
		die("mmap");
	child = peer_fork(receiver, &r, &fd);
	run(&r, fd, send_all);
	return peer_wait(child);
}
