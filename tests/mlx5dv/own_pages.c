// SPDX-License-Identifier: MIT
/* What mlx5dv_init_obj() hands out stands in whole pages, with nothing of anybody else in them, and
 * stays there. Queues that are in use already keep all that is in them. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "mlx5dv/hand.h"
#include "verbs/said.h"

enum { PAGE = 4096, OBJECTS = 6 };

/* Pages of one object, or of something else. */
struct extent {
	uintptr_t from, to;
	bool heap;
};

static struct extent pages(const void *p, size_t len)
{
	uintptr_t at = (uintptr_t)p;

	return (struct extent){ at / PAGE, (at + len + PAGE - 1) / PAGE, false };
}

static struct extent taken[4 * OBJECTS];
static unsigned int n_taken, first_of_object;

/* It shares pages with nothing but others of the same object. */
static void apart(const void *p, size_t len, bool starts_a_page)
{
	struct extent e = pages(p, len);

	want(p);
	if (starts_a_page)
		want_eq((uintptr_t)p % PAGE, 0);
	for (unsigned int i = 0; i < first_of_object; i++)
		want(e.to <= taken[i].from || e.from >= taken[i].to);
	taken[n_taken++] = e;
}

static void next_object(const void *public)
{
	struct extent e = pages(public, 1);

	e.heap = true;
	for (unsigned int i = 0; i < n_taken; i++)
		want(taken[i].heap || e.to <= taken[i].from || e.from >= taken[i].to);
	taken[n_taken++] = e;
	first_of_object = n_taken;
}

static void a_queue_pair(void)
{
	struct hand h = { 0 };

	endpoint(&h, IBV_QPT_RC, NULL);
	next_object(h.ep.qp);
	apart(h.qp.rq.buf, (size_t)h.qp.rq.wqe_cnt * h.qp.rq.stride, true);
	apart(h.qp.sq.buf, (size_t)h.qp.sq.wqe_cnt * h.qp.sq.stride, false);
	want_eq((uintptr_t)h.qp.sq.buf % BLOCK, 0);
	apart(h.qp.dbrec, 8, false);
	next_object(h.ep.scq);
	apart(h.cq.buf, (size_t)h.cq.cqe_cnt * h.cq.cqe_size, true);
	apart(h.cq.dbrec, 8, false);
}

static void shared_receives(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 7, .max_sge = 1 } };
	struct mlx5dv_srq srq = { 0 }, again = { 0 };
	struct mlx5dv_obj obj = { .srq = { .out = &srq } };
	struct ibv_srq_attr larger = { .max_wr = 100 };

	obj.srq.in = ibv_create_srq(dev.pd, &attr);
	want(obj.srq.in);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
	next_object(obj.srq.in);
	apart(srq.buf, 8UL * srq.stride, true);
	apart(srq.dbrec, 8, false);
	want_eq(ibv_modify_srq(obj.srq.in, &larger, IBV_SRQ_MAX_WR), EINVAL);
	obj.srq.out = &again;
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
	want(again.buf == srq.buf && again.dbrec == srq.dbrec);
}

static void work_queue(void)
{
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ, .max_wr = 5, .max_sge = 3 };
	struct mlx5dv_rwq wq = { 0 };
	struct mlx5dv_obj obj = { .rwq.out = &wq };

	wa.pd = dev.pd;
	wa.cq = ibv_create_cq(dev.ctx, 8, NULL, NULL, 0);
	obj.rwq.in = ibv_create_wq(dev.ctx, &wa);
	want(wa.cq && obj.rwq.in);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ), 0);
	next_object(obj.rwq.in);
	apart(wq.buf, (size_t)wq.wqe_cnt * wq.stride, true);
	apart(wq.dbrec, 8, false);
}

static void alone(int arg)
{
	(void)arg;
	open_memory();
	a_queue_pair();
	a_queue_pair();
	shared_receives();
	work_queue();
}

/* libmlx5 keeps a child from its rings' pages, and so may a program: nothing else is in them. */
static void without_a_child(int arg)
{
	int status;
	pid_t child;

	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	want_eq(madvise(a.cq.buf, (size_t)a.cq.cqe_cnt * a.cq.cqe_size, MADV_DONTFORK), 0);
	want_eq(madvise(a.qp.rq.buf, (size_t)a.qp.rq.wqe_cnt * a.qp.rq.stride, MADV_DONTFORK), 0);
	child = fork();
	if (!child) {
		for (size_t size = 1; size < 100000; size *= 2)
			free(memset(malloc(size), 1, size));
		ibv_destroy_qp(a.ep.qp);
		ibv_destroy_cq(a.ep.scq);
		_exit(0);
	}
	want(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
	hand_recv(&b);
	hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, 3);
	received_ok(&b, LEN, 3);
	sent_ok(&a, 0);
}

static struct mlx5dv_qp qp_of(struct ibv_qp *qp)
{
	struct mlx5dv_qp out = { 0 };
	struct mlx5dv_obj obj = { .qp = { qp, &out } };

	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
	return out;
}

static struct mlx5dv_cq cq_of(struct ibv_cq *cq)
{
	struct mlx5dv_cq out = { 0 };
	struct mlx5dv_obj obj = { .cq = { cq, &out } };

	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	return out;
}

static void posts(struct hand *h, bool receive, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)mem + (receive ? HALF : 0), LEN, mr->lkey };
	struct ibv_recv_wr rwr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *rbad;
	struct ibv_send_wr wr = { .wr_id = id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = htobe32((uint32_t)id),
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (receive)
		want_eq(ibv_post_recv(h->ep.qp, &rwr, &rbad), 0);
	else
		want_eq(ibv_post_send(h->ep.qp, &wr, &bad), 0);
}

static void made(struct hand *h)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { WRS, WRS, 2, 2, 64 } };

	h->ep.scq = h->ep.rcq = attr.send_cq = attr.recv_cq =
		ibv_create_cq(dev.ctx, 31, NULL, NULL, 0);
	want(h->ep.scq);
	h->ep.qp = ibv_create_qp(dev.pd, &attr);
	want(h->ep.qp);
	h->ep.mine = (struct peer_addr){ .qpn = h->ep.qp->qp_num, .psn = 7, .gid = dev.gid };
}

static void polled(struct ibv_cq *cq, uint64_t id)
{
	struct ibv_wc wc;
	int n = 0;

	for (uint64_t i = 0; i < 100000000 && !n; i++)
		n = ibv_poll_cq(cq, 1, &wc);
	want_eq(n, 1);
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.wr_id, id);
}

/* The verbs begin; some is under way, some unread, when the rings are laid open; then both go on:
 * the verbs post, the program reads. */
static void under_way(int arg)
{
	struct peer_opts o = { .type = IBV_QPT_RC };
	uint32_t i;

	(void)arg;
	open_memory();
	made(&a);
	made(&b);
	a.ep.theirs = b.ep.mine;
	b.ep.theirs = a.ep.mine;
	peer_connect(&a.ep, &o);
	peer_connect(&b.ep, &o);
	for (i = 0; i < 50; i++) { /* around each ring */
		posts(&b, true, i);
		posts(&a, false, i);
		polled(b.ep.rcq, i);
		polled(a.ep.scq, i);
	}
	posts(&b, true, i);
	posts(&b, true, i + 1);
	posts(&a, false, i);
	b.polled = a.polled = i;
	b.received = (uint16_t)(i + 2);
	b.qp = qp_of(b.ep.qp);
	b.cq = cq_of(b.ep.rcq);
	a.qp = qp_of(a.ep.qp);
	want_eq((uintptr_t)b.qp.rq.buf % PAGE + (uintptr_t)b.cq.buf % PAGE, 0);
	want_eq(be32toh(b.qp.dbrec[MLX5_RCV_DBR]), b.received);
	received_ok(&b, LEN, i);
	polled(a.ep.scq, i);
	for (i++; i < 100; i++) {
		posts(&a, false, i);
		received_ok(&b, LEN, i);
		polled(a.ep.scq, i);
		write_recv(&b);
		record(&b.qp.dbrec[MLX5_RCV_DBR], b.received);
	}
	want(qp_of(b.ep.qp).rq.buf == b.qp.rq.buf && cq_of(b.ep.rcq).buf == b.cq.buf);
	want_eq(ibv_destroy_qp(a.ep.qp), 0);
	want_eq(ibv_destroy_qp(b.ep.qp), 0);
	want_eq(ibv_destroy_cq(b.ep.rcq), 0);
}

/* A ring that moves would move under the batch. */
static void within_a_batch(int arg)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_RC,
					    .cap = { WRS, WRS, 2, 2, 64 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD |
							 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct mlx5dv_qp out;
	struct mlx5dv_obj obj = { .qp = { .out = &out } };
	struct ibv_qp_ex *ex;

	(void)arg;
	open_memory();
	attr.pd = dev.pd;
	attr.send_cq = attr.recv_cq = ibv_create_cq(dev.ctx, 31, NULL, NULL, 0);
	obj.qp.in = ibv_create_qp_ex(dev.ctx, &attr);
	want(obj.qp.in);
	ex = ibv_qp_to_qp_ex(obj.qp.in);
	ibv_wr_start(ex);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), EINVAL);
	said_want(SAID_NEAR,
		  "mlx5dv_init_obj: this thread is between ibv_wr_start and ibv_wr_complete on QP "
		  "0x%x; end that first",
		  obj.qp.in->qp_num);
	ibv_wr_abort(ex);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
}

/* --- memory of the program's functions --- */

enum { PIECES = 32 };

static struct {
	uint8_t *at;
	size_t len;
} piece[PIECES];
static unsigned int n_pieces, n_left;
static bool dry;

static void *alloc(size_t size, void *data)
{
	want(data == &n_left && n_pieces < PIECES);
	if (dry)
		return NULL;
	piece[n_pieces].at = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
	piece[n_pieces].len = size;
	n_left++;
	return memset(piece[n_pieces++].at, 0xa5, size);
}

static void release(void *p, void *data)
{
	unsigned int i = 0;

	want(data == &n_left);
	while (i < n_pieces && piece[i].at != p)
		i++;
	want(i < n_pieces);
	piece[i].at = NULL;
	n_left--;
	free(p);
}

static void theirs(const void *p, size_t len)
{
	unsigned int i = 0;

	while (i < n_pieces && !((const uint8_t *)p >= piece[i].at &&
				 (const uint8_t *)p + len <= piece[i].at + piece[i].len))
		i++;
	want(i < n_pieces);
}

static void theirs_all(struct hand *h)
{
	theirs(h->qp.sq.buf, (size_t)h->qp.sq.wqe_cnt * h->qp.sq.stride);
	if (h->qp.rq.wqe_cnt)
		theirs(h->qp.rq.buf, (size_t)h->qp.rq.wqe_cnt * h->qp.rq.stride);
	theirs(h->qp.dbrec, 8);
	theirs(h->cq.buf, (size_t)h->cq.cqe_cnt * h->cq.cqe_size);
	theirs(h->cq.dbrec, 8);
}

static void ends(struct hand *h)
{
	want_eq(ibv_destroy_qp(h->ep.qp), 0);
	want_eq(ibv_destroy_cq(h->ep.scq), 0);
}

/* Rings and records of a whole context, shared receives and work queues too; what is made fails as
 * a whole where they have nothing to give. */
static void by_the_program(int arg)
{
	struct mlx5dv_ctx_allocators f = { alloc, release, &n_left };
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 7, .max_sge = 1 } };
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ, .max_wr = 5, .max_sge = 3 };
	struct ibv_srq *srq;
	struct ibv_wq *wq;

	(void)arg;
	open_memory();
	want_eq(mlx5dv_set_context_attr(dev.ctx, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &f), 0);
	connected(IBV_QPT_RC, NULL);
	theirs_all(&a);
	theirs_all(&b);
	hand_messages(20);
	srq = ibv_create_srq(dev.pd, &sa);
	wa.pd = dev.pd;
	wa.cq = a.ep.scq;
	wq = ibv_create_wq(dev.ctx, &wa);
	want(srq && wq);
	want_eq(n_left, 2 * (3 + 2) + 2 * 2); /* each ring, and a record of each queue */
	dry = true;
	errno = 0;
	want(!ibv_create_cq(dev.ctx, 31, NULL, NULL, 0));
	want_eq(errno, ENOMEM);
	said_want(SAID_NEAR,
		  "the alloc function of mlx5dv_set_context_attr gave (nil) for 64 B; it has to be "
		  "aligned to 64");
	want_eq(ibv_destroy_wq(wq), 0);
	want_eq(ibv_destroy_srq(srq), 0);
	ends(&a);
	ends(&b);
	want_eq(n_left, 0);
}

static volatile sig_atomic_t faults;
static uintptr_t watched;

static void on_fault(int signal)
{
	(void)signal;
	faults++;
	mprotect((void *)watched, PAGE, PROT_READ | PROT_WRITE);
}

/* The rest of a page with a record may be anything, such as a heap that is watched by its rights:
 * the fault is the program's. */
static void the_rest_of_a_page(int arg)
{
	struct mlx5dv_ctx_allocators f = { alloc, release, &n_left };

	(void)arg;
	want(signal(SIGSEGV, on_fault) != SIG_ERR);
	open_memory();
	want_eq(mlx5dv_set_context_attr(dev.ctx, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &f), 0);
	connected(IBV_QPT_RC, NULL);
	watched = (uintptr_t)a.qp.dbrec / PAGE * PAGE;
	want_eq(mprotect((void *)watched, PAGE, PROT_READ), 0);
	*(volatile uint8_t *)(watched + PAGE - 1) = 1;
	want_eq(faults, 1); /* the device only reads there */
	hand_recv(&b);
	hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, 3);
	received_ok(&b, LEN, 3);
	sent_ok(&a, 0);
}

static void *alloc_in(struct ibv_pd *pd, void *context, size_t size, size_t align, uint64_t type)
{
	want(pd == dev.pd && align <= PAGE);
	want_eq(size == 8, type == MLX5DV_RES_TYPE_DBR);
	return alloc(size, context);
}

static void release_in(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	want(pd == dev.pd && type >> 32 == MLX5DV_RES_TYPE_DBR >> 32);
	release(p, context);
}

static struct ibv_cq *cq_in_domain(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 31,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					    .parent_domain = dev.pd };

	return ibv_cq_ex_to_cq(ibv_create_cq_ex(dev.ctx, &attr));
}

/* The same by the functions of a parent domain, for all that is made in it. */
static void by_a_parent_domain(int arg)
{
	struct ibv_parent_domain_init_attr attr = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = alloc_in,
		.free = release_in,
		.pd_context = &n_left,
	};
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 7, .max_sge = 1 } };
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ, .max_wr = 5, .max_sge = 3 };
	struct ibv_srq *srq;
	struct ibv_wq *wq;

	(void)arg;
	open_memory();
	attr.pd = dev.pd;
	dev.pd = ibv_alloc_parent_domain(dev.ctx, &attr);
	want(dev.pd);
	connected(IBV_QPT_RC, NULL);
	for (struct hand *h = &a; h; h = h == &a ? &b : NULL) {
		theirs(h->qp.sq.buf, (size_t)h->qp.sq.wqe_cnt * h->qp.sq.stride);
		theirs(h->qp.rq.buf, (size_t)h->qp.rq.wqe_cnt * h->qp.rq.stride);
		theirs(h->qp.dbrec, 8);
	}
	hand_messages(20);
	srq = ibv_create_srq(dev.pd, &sa);
	wa.pd = dev.pd;
	wa.cq = cq_in_domain();
	want(srq && wa.cq);
	wq = ibv_create_wq(dev.ctx, &wa);
	want(wq);
	want_eq(n_left, 2 * 3 + 3 * 2); /* each ring, and a record of each queue */
	theirs(cq_of(wa.cq).dbrec, 8);
	dry = true;
	want(!cq_in_domain());
	want_eq(ibv_destroy_wq(wq), 0);
	want_eq(ibv_destroy_cq(wa.cq), 0);
	want_eq(ibv_destroy_srq(srq), 0);
	ends(&a);
	ends(&b);
	want_eq(n_left, 0);
}

static void *alloc_record_in(struct ibv_pd *pd, void *context, size_t size, size_t align,
			     uint64_t type)
{
	return size == 8 ? alloc_in(pd, context, size, align, type) : IBV_ALLOCATOR_USE_DEFAULT;
}

/* The rings move, with copies of the records; these go back when their queues end. */
static void records_alone(int arg)
{
	struct ibv_parent_domain_init_attr attr = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = alloc_record_in,
		.free = release_in,
		.pd_context = &n_left,
	};
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 7, .max_sge = 1 } };
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ, .max_wr = 5, .max_sge = 3 };
	struct mlx5dv_srq srq = { 0 };
	struct mlx5dv_rwq wq = { 0 };
	struct mlx5dv_obj obj = { .srq.out = &srq, .rwq.out = &wq };

	(void)arg;
	open_memory();
	attr.pd = dev.pd;
	dev.pd = ibv_alloc_parent_domain(dev.ctx, &attr);
	want(dev.pd);
	connected(IBV_QPT_RC, NULL);
	obj.srq.in = ibv_create_srq(dev.pd, &sa);
	wa.pd = dev.pd;
	wa.cq = cq_in_domain();
	want(obj.srq.in && wa.cq);
	obj.rwq.in = ibv_create_wq(dev.ctx, &wa);
	want(obj.rwq.in);
	want_eq(n_pieces, 5);
	cq_of(wa.cq);
	want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ | MLX5DV_OBJ_RWQ), 0);
	hand_messages(20);
	want_eq(ibv_destroy_wq(obj.rwq.in), 0);
	want_eq(ibv_destroy_cq(wa.cq), 0);
	want_eq(ibv_destroy_srq(obj.srq.in), 0);
	ends(&a);
	ends(&b);
	want_eq(n_left, 0);
}

/* --- in a forked child --- */

static void *alloc_shared(size_t size, void *data)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	want(p != MAP_FAILED);
	++*(unsigned int *)data;
	return p;
}

static void release_shared(void *p, void *data)
{
	(void)p;
	--*(unsigned int *)data;
}

static void *alloc_shared_in(struct ibv_pd *pd, void *context, size_t size, size_t align,
			     uint64_t type)
{
	(void)pd;
	(void)align;
	(void)type;
	return alloc_shared(size, context);
}

static void release_shared_in(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	(void)pd;
	(void)type;
	release_shared(p, context);
}

/* From now on by the functions of a parent domain, or of the context. */
static void lend_shared(bool domain)
{
	struct mlx5dv_ctx_allocators f = { alloc_shared, release_shared, &n_left };
	struct ibv_parent_domain_init_attr attr = {
		.pd = dev.pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = alloc_shared_in,
		.free = release_shared_in,
		.pd_context = &n_left,
	};

	if (domain)
		dev.pd = ibv_alloc_parent_domain(dev.ctx, &attr);
	else
		want_eq(mlx5dv_set_context_attr(dev.ctx, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &f), 0);
	want(dev.pd);
}

static struct ibv_cq *own_cq(void)
{
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 31, NULL, NULL, 0);

	want(cq);
	cq_of(cq);
	return cq;
}

static void in_a_child(void (*fn)(void))
{
	int status;
	pid_t child = fork();

	if (!child) {
		fn();
		_exit(0);
	}
	want(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
}

static void child_destroys_lent(void)
{
	unsigned int were = n_left;
	struct ibv_cq *cq;

	open_memory();
	cq = own_cq();
	ends(&a);
	ends(&b);
	want_eq(n_left, were);
	want_eq(ibv_destroy_cq(cq), 0);
}

/* What a program's function has made is no child's, which neither frees it nor gives it back. */
static void lent_to_the_parent(int domain)
{
	open_memory();
	lend_shared(domain);
	connected(IBV_QPT_RC, NULL);
	want(n_left);
	in_a_child(child_destroys_lent);
	hand_messages(20);
	ends(&a);
	ends(&b);
	want_eq(n_left, 0);
}

static size_t pages_mapped(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t n = 0;

	want(f && fscanf(f, "%zu", &n) == 1);
	fclose(f);
	return n;
}

static void child_makes_rings(void)
{
	enum { TIMES = 50, ENTRIES = 8192 };
	size_t before;

	open_memory();
	before = pages_mapped();
	for (int i = 0; i < TIMES; i++) {
		struct ibv_cq *cq = ibv_create_cq(dev.ctx, ENTRIES - 1, NULL, NULL, 0);

		want(cq);
		want_eq(ibv_destroy_cq(cq), 0);
	}
	want(pages_mapped() - before < TIMES / 2 * ENTRIES * sizeof(struct mlx5_cqe64) / PAGE);
}

/* Its own rings are freed, though its parent's have other origins. */
static void rings_of_a_child(int arg)
{
	(void)arg;
	open_memory();
	lend_shared(false);
	want(ibv_create_cq(dev.ctx, 31, NULL, NULL, 0));
	in_a_child(child_makes_rings);
}

static volatile sig_atomic_t mine;

static void on_own_fault(int signal)
{
	(void)signal;
	_exit(mine ? 0 : 1);
}

static void child_has_other_memory(void)
{
	uint8_t *at = a.qp.rq.buf;

	want(mmap(at, PAGE, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);
	at[0] = 7;
	want(signal(SIGSEGV, on_own_fault) != SIG_ERR);
	open_memory();
	own_cq();
	want_eq(ibv_destroy_qp(a.ep.qp), 0);
	want_eq(at[0], 7);
	want_eq(mprotect(at, PAGE, PROT_NONE), 0);
	mine = 1;
	want_eq(at[0], 0xff); /* the handler is called */
}

/* Where the parent's pages are a child may have something else, with faults of its own. */
static void place_of_a_parents_rings(int arg)
{
	(void)arg;
	open_memory();
	connected(IBV_QPT_RC, NULL);
	want_eq(madvise(a.qp.rq.buf, (size_t)a.qp.rq.wqe_cnt * a.qp.rq.stride, MADV_DONTFORK), 0);
	in_a_child(child_has_other_memory);
}

/* --- beside a resize --- */

static struct mlx5dv_obj beside;
static struct mlx5dv_cq beside_cq;
static struct mlx5dv_srq beside_srq;

static void *alloc_beside(size_t size, void *data)
{
	want_eq(mlx5dv_init_obj(&beside, beside.cq.in ? MLX5DV_OBJ_CQ : MLX5DV_OBJ_SRQ), 0);
	return alloc(size, data);
}

/* The ring is laid open while its resize allocates, as another thread may do: it stays where the
 * program was told that it is. */
static void while_it_is_resized(int shared)
{
	struct mlx5dv_ctx_allocators f = { alloc_beside, release, &n_left };
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 7, .max_sge = 1 } };
	struct ibv_srq_attr larger = { .max_wr = 100 };
	struct ibv_srq *srq;
	struct ibv_cq *cq;

	open_memory();
	srq = ibv_create_srq(dev.pd, &attr);
	cq = ibv_create_cq(dev.ctx, 15, NULL, NULL, 0);
	want(srq && cq);
	want_eq(mlx5dv_set_context_attr(dev.ctx, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &f), 0);
	if (shared) {
		beside.srq.in = srq;
		beside.srq.out = &beside_srq;
		want_eq(ibv_modify_srq(srq, &larger, IBV_SRQ_MAX_WR), EINVAL);
	} else {
		beside.cq.in = cq;
		beside.cq.out = &beside_cq;
		want_errno(ibv_resize_cq(cq, 100), EINVAL);
		want(cq_of(cq).buf == beside_cq.buf && cq_of(cq).cqe_cnt == 16);
	}
	want_eq(n_pieces, 1);
	want_eq(n_left, 0);
	memset(shared ? beside_srq.buf : beside_cq.buf, 0, PAGE); /* still the ring's */
	want_eq(ibv_destroy_srq(srq), 0);
	want_eq(ibv_destroy_cq(cq), 0);
}

static pthread_barrier_t start;

static void *resize(void *cq)
{
	pthread_barrier_wait(&start);
	return (void *)(intptr_t)ibv_resize_cq(cq, 4000);
}

/* Whichever of two threads is first: what the program is told is as large as it is told. */
static void beside_a_resize(int arg)
{
	enum { TIMES = 1000 };

	(void)arg;
	open_memory();
	want_eq(pthread_barrier_init(&start, NULL, 2), 0);
	for (int i = 0; i < TIMES; i++) {
		struct ibv_cq *cq = ibv_create_cq(dev.ctx, 15, NULL, NULL, 0);
		struct mlx5dv_cq out;
		pthread_t thread;
		void *err;

		want(cq && !pthread_create(&thread, NULL, resize, cq));
		pthread_barrier_wait(&start);
		out = cq_of(cq);
		want(!pthread_join(thread, &err));
		want_eq(out.cqe_cnt, err ? 16 : 4096);
		want_eq(cq->cqe, (int)out.cqe_cnt - 1);
		memset(out.buf, 0, (size_t)out.cqe_cnt * out.cqe_size);
		want(cq_of(cq).buf == out.buf);
		want_eq(ibv_destroy_cq(cq), 0);
	}
}

static const struct test_case cases[] = {
	CASE(alone),
	CASE(without_a_child),
	CASE(under_way),
	CASE(within_a_batch),
	CASE(by_the_program),
	CASE(by_a_parent_domain),
	CASE(records_alone),
	CASE(the_rest_of_a_page),
	CASE_ARG(lent_to_the_parent, false),
	CASE_ARG(lent_to_the_parent, true),
	CASE(rings_of_a_child),
	CASE(place_of_a_parents_rings),
	CASE_ARG(while_it_is_resized, false),
	CASE_ARG(while_it_is_resized, true),
	CASE(beside_a_resize),
};

int main(void)
{
	return CASES_RUN(cases);
}
