// SPDX-License-Identifier: MIT
#include "mlx5dv/dc_duo.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATIENCE = 30000 /* ms */, WRS = 64 };

struct far { /* the targets of a process */
	struct peer_dev dev;
	struct ibv_cq *cq[DC_TARGETS];
	struct ibv_srq *srq[DC_TARGETS];
	struct ibv_qp *qp[DC_TARGETS];
	struct ibv_mr *mr[DC_TARGETS];
	uint8_t *mem[DC_TARGETS];
};

const char *dc_far;
uint64_t dc_key = DC_KEY;
int dc_access;

static struct far here;

struct ibv_qp *dc_target_make(struct peer_dev *dev, struct ibv_cq *cq, struct ibv_srq *srq,
			      uint64_t key)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_DRIVER,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .srq = srq,
					 .comp_mask = IBV_QP_INIT_ATTR_PD,
					 .pd = dev->pd };
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					  .dc_init_attr = { .dc_type = MLX5DV_DCTYPE_DCT,
							    .dct_access_key = key } };
	struct ibv_qp *qp = mlx5dv_create_qp(dev->ctx, &a, &dv);

	if (!qp)
		die("mlx5dv_create_qp");
	return qp;
}

static void move(struct ibv_qp *qp, struct ibv_qp_attr a, int mask)
{
	if (ibv_modify_qp(qp, &a, mask | IBV_QP_STATE))
		die("ibv_modify_qp");
}

void dc_target_rtr(struct ibv_qp *qp)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_4096,
				   .min_rnr_timer = 12,
				   .ah_attr = { .is_global = 1,
						.port_num = 1,
						.grh = { .sgid_index = peer_gid_index,
							 .hop_limit = 64 } } };

	move(qp, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	move(qp, rtr, IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV); /* of no peer: no dgid */
}

static void far_open(struct far *f, struct dc_addr *out)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = WRS, .max_sge = 1 } };

	for (int i = 0; i < DC_TARGETS; i++) {
		f->mem[i] = peer_memory(DC_BYTES, false);
		f->mr[i] = ibv_reg_mr(f->dev.pd, f->mem[i], DC_BYTES,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
					      dc_access);
		f->cq[i] = ibv_create_cq(f->dev.ctx, WRS, NULL, NULL, 0);
		f->srq[i] = ibv_create_srq(f->dev.pd, &sa);
		if (!f->mr[i] || !f->cq[i] || !f->srq[i])
			die("a target's objects");
		f->qp[i] = dc_target_make(&f->dev, f->cq[i], f->srq[i], dc_key);
		dc_target_rtr(f->qp[i]);
		out[i] = (struct dc_addr){ f->qp[i]->qp_num, f->mr[i]->rkey, (uintptr_t)f->mem[i],
					   f->dev.gid };
	}
}

static struct dc_answer event(struct far *f)
{
	struct pollfd p = { f->dev.ctx->async_fd, POLLIN, 0 };
	struct ibv_async_event ev;

	if (poll(&p, 1, PATIENCE) != 1 || ibv_get_async_event(f->dev.ctx, &ev))
		return (struct dc_answer){ 0 };
	ibv_ack_async_event(&ev);
	return (struct dc_answer){ .found = true, .value = ev.event_type };
}

static void receive(struct far *f, const struct dc_order *o)
{
	unsigned int i = o->target;
	struct ibv_sge sg = { (uintptr_t)f->mem[i], o->len, f->mr[i]->lkey };
	struct ibv_recv_wr wr = { .wr_id = o->id, .sg_list = &sg, .num_sge = 1 }, *bad;

	if (ibv_post_srq_recv(f->srq[i], &wr, &bad))
		die("ibv_post_srq_recv");
}

static struct dc_answer follow(struct far *f, const struct dc_order *o)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_init_attr init;
	struct dc_answer a = { .found = true };
	unsigned int i = o->target;

	switch (o->op) {
	case DC_RECV:
		receive(f, o);
		break;
	case DC_POLL:
		a.found = peer_poll(f->cq[i], &a.wc, PATIENCE);
		break;
	case DC_NONE_CAME:
		a.found = ibv_poll_cq(f->cq[i], 1, &a.wc) == 0;
		break;
	case DC_EVENT:
		return event(f);
	case DC_NO_EVENT:
		a.found = !poll(&(struct pollfd){ f->dev.ctx->async_fd, POLLIN, 0 }, 1, 0);
		break;
	case DC_STATE:
		if (ibv_query_qp(f->qp[i], &attr, IBV_QP_STATE, &init))
			die("ibv_query_qp");
		a.value = attr.qp_state;
		break;
	case DC_CHECK:
		a.found = pattern_check_told(f->mem[i], o->len, o->id, 0) == o->len;
		break;
	case DC_FILL:
		pattern_fill(f->mem[i], DC_BYTES, o->id, 0);
		break;
	case DC_DESTROY:
		if (ibv_destroy_qp(f->qp[i]))
			die("ibv_destroy_qp");
		f->qp[i] = NULL;
		break;
	case DC_CLOSE:
		move(f->qp[i], attr, 0);
		dc_target_rtr(f->qp[i]);
		break;
	case DC_QUIT:
		break;
	}
	return a;
}

static void far_close(struct far *f)
{
	for (int i = 0; i < DC_TARGETS; i++) {
		if (f->qp[i] && ibv_destroy_qp(f->qp[i]))
			die("ibv_destroy_qp");
		if (ibv_destroy_srq(f->srq[i]) || ibv_destroy_cq(f->cq[i]) ||
		    ibv_dereg_mr(f->mr[i]))
			die("a target's objects are still in use");
		munmap(f->mem[i], DC_BYTES);
	}
}

static void get(int fd, void *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t k = read(fd, (char *)p + at, n - at);

		if (k <= 0)
			die("read");
		at += (size_t)k;
	}
}

static void put(int fd, const void *p, size_t n)
{
	if (write(fd, p, n) != (ssize_t)n)
		die("write");
}

static int far_main(int fd, void *arg)
{
	struct dc_addr addr[DC_TARGETS];
	struct dc_order o = { 0 };

	(void)arg;
	if (dc_far) {
		int ns = open(dc_far, O_RDONLY | O_CLOEXEC);

		if (ns < 0 || setns(ns, CLONE_NEWNET))
			die(dc_far);
		close(ns);
	}
	peer_open(&here.dev);
	far_open(&here, addr);
	put(fd, addr, sizeof(addr));
	do {
		struct dc_answer a;

		get(fd, &o, sizeof(o));
		a = follow(&here, &o);
		if (o.op == DC_QUIT)
			far_close(&here);
		put(fd, &a, sizeof(a));
	} while (o.op != DC_QUIT);
	peer_close(&here.dev);
	return 0;
}

struct dc_answer dc_tell(struct dc_duo *d, struct dc_order o)
{
	unsigned int process = o.target / DC_TARGETS;
	struct dc_answer a;

	o.target %= DC_TARGETS;
	if (!d->processes)
		return follow(&here, &o);
	put(d->fd[process], &o, sizeof(o));
	get(d->fd[process], &a, sizeof(a));
	return a;
}

void dc_connect(struct dc_peer *p)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096 };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 16 };

	move(p->qp, reset, 0);
	move(p->qp, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT);
	move(p->qp, rtr, IBV_QP_PATH_MTU);
	move(p->qp, rts,
	     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void initiator(struct dc_duo *d, struct dc_peer *p, const struct mlx5dv_dci_streams *s)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_DRIVER,
		.cap = { .max_send_wr = WRS, .max_send_sge = 1, .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = d->dev.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
	};
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					  .dc_init_attr = { .dc_type = MLX5DV_DCTYPE_DCI } };

	if (s) {
		dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
		dv.dc_init_attr.dci_streams = *s;
	}
	p->stream = 0;
	p->cq = ibv_create_cq(d->dev.ctx, WRS, NULL, NULL, 0);
	a.send_cq = a.recv_cq = p->cq;
	p->qp = mlx5dv_create_qp(d->dev.ctx, &a, &dv);
	if (!p->cq || !p->qp)
		die("mlx5dv_create_qp");
	p->ex = ibv_qp_to_qp_ex(p->qp);
	p->dv = mlx5dv_qp_ex_from_ibv_qp_ex(p->ex);
	dc_connect(p);
}

void dc_initiator(struct dc_duo *d, struct dc_peer *p)
{
	initiator(d, p, NULL);
}

void dc_initiator_streams(struct dc_duo *d, struct dc_peer *p, uint8_t errored)
{
	initiator(d, p, &(struct mlx5dv_dci_streams){ 3, errored });
}

void dc_open(struct dc_duo *d, unsigned int processes)
{
	struct peer_addr to;

	*d = (struct dc_duo){ .processes = processes,
			      .key = dc_key,
			      .targets = DC_TARGETS * (processes ? processes : 1) };
	for (unsigned int i = 0; i < processes; i++)
		d->pid[i] = peer_fork(far_main, NULL, &d->fd[i]);
	peer_open(&d->dev);
	d->mem = peer_memory(DC_BYTES, false);
	d->mr = ibv_reg_mr(d->dev.pd, d->mem, DC_BYTES, IBV_ACCESS_LOCAL_WRITE | dc_access);
	if (!d->mr)
		die("ibv_reg_mr");
	if (!processes) {
		here.dev = d->dev;
		far_open(&here, d->to);
	}
	for (unsigned int i = 0; i < processes; i++)
		get(d->fd[i], d->to + (size_t)i * DC_TARGETS, DC_TARGETS * sizeof(d->to[0]));
	to = (struct peer_addr){ .gid = d->to[0].gid };
	d->ah = peer_ah(&d->dev, &to);
	dc_initiator(d, &d->i);
}

void dc_close(struct dc_duo *d)
{
	if (ibv_destroy_qp(d->i.qp) || ibv_destroy_cq(d->i.cq) || ibv_destroy_ah(d->ah) ||
	    ibv_dereg_mr(d->mr))
		die("an initiator's objects are still in use");
	munmap(d->mem, DC_BYTES);
	if (!d->processes)
		far_close(&here);
	for (unsigned int i = 0; i < d->processes; i++) {
		dc_tell(d, (struct dc_order){ DC_QUIT, .target = i * DC_TARGETS });
		want_eq(peer_wait(d->pid[i]), 0);
		close(d->fd[i]);
	}
	peer_close(&d->dev);
}

void dc_post(struct dc_duo *d, struct dc_peer *p, enum ibv_wr_opcode op, unsigned int to,
	     uint32_t len, uint64_t id)
{
	struct ibv_qp_ex *ex = p->ex;
	const struct dc_addr *a = &d->to[to];

	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	if (op == IBV_WR_SEND)
		ibv_wr_send(ex);
	else if (op == IBV_WR_SEND_WITH_IMM)
		ibv_wr_send_imm(ex, htobe32((uint32_t)id));
	else if (op == IBV_WR_RDMA_WRITE)
		ibv_wr_rdma_write(ex, a->rkey, a->va);
	else if (op == IBV_WR_RDMA_WRITE_WITH_IMM)
		ibv_wr_rdma_write_imm(ex, a->rkey, a->va, htobe32((uint32_t)id));
	else if (op == IBV_WR_RDMA_READ)
		ibv_wr_rdma_read(ex, a->rkey, a->va);
	else if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		ibv_wr_atomic_fetch_add(ex, a->rkey, a->va, id);
	else
		ibv_wr_atomic_cmp_swp(ex, a->rkey, a->va, id, id + 1);
	if (p->stream)
		mlx5dv_wr_set_dc_addr_stream(p->dv, d->ah, a->dctn, d->key, p->stream);
	else
		mlx5dv_wr_set_dc_addr(p->dv, d->ah, a->dctn, d->key);
	ibv_wr_set_sge(ex, d->mr->lkey, (uintptr_t)d->mem, len);
	if (ibv_wr_complete(ex))
		die("ibv_wr_complete");
}

struct ibv_wc dc_wc(struct dc_peer *p)
{
	struct ibv_wc wc;

	if (!peer_poll(p->cq, &wc, PATIENCE))
		fail("no completion of the initiator came");
	return wc;
}

void dc_done(struct dc_peer *p, uint64_t id)
{
	struct ibv_wc wc = dc_wc(p);

	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.wr_id, id);
	want_eq(wc.qp_num, p->qp->qp_num);
}
