// SPDX-License-Identifier: MIT
/* Parent domains and their memory functions, thread domains; importing devices, PDs, regions and
 * device memory within a process, and the descriptor of another's. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/peer.h"

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* --- memory functions that keep account --- */

struct account {
	struct ibv_pd *pd;
	unsigned int made[8], freed[8]; /* by the low byte of the resource type */
	size_t bytes;
	enum { OWN, DEFAULT, NOTHING, CROOKED } answer;
};

static void *account_alloc(struct ibv_pd *pd, void *context, size_t size, size_t align,
			   uint64_t type)
{
	struct account *a = context;
	void *p;

	want(!a->pd || a->pd == pd);
	want_eq(type >> 32, MLX5DV_RES_TYPE_QP >> 32);
	want((type & 0xff) < 8 && align && !(align & (align - 1)));
	if (a->answer == DEFAULT)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (a->answer == NOTHING)
		return NULL;
	a->made[type & 0xff]++;
	a->bytes += size;
	if (posix_memalign(&p, align, size + align))
		return NULL;
	memset(p, 0xee, size + align);
	return a->answer == CROOKED ? (char *)p + 8 : p;
}

static void account_free(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	struct account *a = context;

	want(!a->pd || a->pd == pd);
	a->freed[type & 0xff]++;
	free(a->answer == CROOKED ? (char *)p - 8 : p);
}

static struct ibv_pd *parent(struct peer_dev *dev, struct account *a, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = dev->pd,
		.td = td,
		.comp_mask = a ? IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
					     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
			       : 0,
		.alloc = account_alloc,
		.free = account_free,
		.pd_context = a,
	};
	struct ibv_pd *pd = ibv_alloc_parent_domain(dev->ctx, &attr);

	if (!pd)
		die("ibv_alloc_parent_domain");
	if (a)
		a->pd = pd;
	want_eq(pd->handle, dev->pd->handle);
	return pd;
}

static struct ibv_cq *cq_in(struct ibv_context *ctx, struct ibv_pd *pd, uint32_t cqe)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = cqe,
					    .wc_flags = IBV_WC_EX_WITH_BYTE_LEN,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					    .parent_domain = pd };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

/* Traffic from a queue pair in the domain @pd to one of the plain PD, and back. */
static void traffic(struct peer_dev *dev, struct ibv_pd *pd, struct ibv_mr *mr, uint8_t *mem,
		    struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct peer_opts s = o;
	struct peer_dev in = *dev;
	struct peer_ep a, b;
	struct ibv_sge sg = { (uintptr_t)mem, 64, mr->lkey };
	struct ibv_recv_wr rwr = { .sg_list = &sg, .num_sge = 1 }, *badr;
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sg, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED
	};
	struct ibv_send_wr *bad;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = o.cap, .srq = srq };
	struct ibv_wc wc;

	in.pd = pd;
	s.srq = srq;
	peer_ep_create(&in, &s, &a);
	peer_ep_create(dev, &o, &b);
	if (cq) { /* the same again with that CQ */
		init.send_cq = init.recv_cq = cq;
		want_eq(ibv_destroy_qp(a.qp), 0);
		a.qp = ibv_create_qp(pd, &init);
		want(a.qp != NULL);
		want(a.qp->pd == pd);
		a.mine.qpn = a.qp->qp_num;
		want_eq(ibv_destroy_cq(a.scq), 0);
		a.scq = a.rcq = cq;
	}
	a.theirs = b.mine;
	b.theirs = a.mine;
	peer_connect(&a, &s);
	peer_connect(&b, &o);
	for (int i = 0; i < 10; i++) {
		peer_recv(&b, 1, &sg, 1);
		want_eq(ibv_post_send(a.qp, &wr, &bad), 0);
		peer_poll_ok(a.scq, &wc);
		peer_poll_ok(b.rcq, &wc);
		want_eq(srq ? ibv_post_srq_recv(srq, &rwr, &badr)
			    : ibv_post_recv(a.qp, &rwr, &badr),
			0);
		want_eq(ibv_post_send(b.qp, &wr, &bad), 0);
		peer_poll_ok(b.scq, &wc);
		peer_poll_ok(a.rcq, &wc);
	}
	if (cq)
		want_eq(ibv_destroy_qp(a.qp), 0);
	else
		peer_ep_destroy(&a);
	peer_ep_destroy(&b);
}

static void all_freed(const struct account *a)
{
	for (int i = 0; i < 8; i++)
		want_eq(a->made[i], a->freed[i]);
}

static void memory_functions(int answer)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 2 } };
	struct account a = { .answer = (unsigned int)answer };
	static uint8_t mem[4096] __attribute__((aligned(4096)));
	const int qp = (int)(MLX5DV_RES_TYPE_QP & 0xff), cqs = (int)(MLX5DV_RES_TYPE_CQ & 0xff),
		  srqs = (int)(MLX5DV_RES_TYPE_SRQ & 0xff);
	struct ibv_srq_attr more = { .max_wr = 100 };
	struct peer_dev dev;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_pd *pd;

	peer_open(&dev);
	pd = parent(&dev, &a, NULL);
	mr = ibv_reg_mr(pd, mem, sizeof(mem), ALL);
	want(mr != NULL && mr->pd == pd);
	traffic(&dev, pd, mr, mem, NULL, NULL);
	want_eq(a.made[qp] > 0, answer == OWN);
	all_freed(&a);
	cq = cq_in(dev.ctx, pd, 10);
	srq = ibv_create_srq(pd, &srq_attr);
	want(cq != NULL && srq != NULL);
	want_eq(a.made[cqs], answer == OWN);
	want_eq(a.made[srqs], answer == OWN);
	want_errno(ibv_dealloc_pd(pd), EBUSY);
	traffic(&dev, pd, mr, mem, cq, srq);
	/* other rings, from the same functions */
	want_eq(ibv_resize_cq(cq, 2000), 0);
	want_eq(ibv_modify_srq(srq, &more, IBV_SRQ_MAX_WR), 0);
	want_eq(a.made[cqs], 2 * (answer == OWN));
	want_eq(a.made[srqs], 2 * (answer == OWN));
	traffic(&dev, pd, mr, mem, cq, srq);
	want_eq(ibv_destroy_srq(srq), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	all_freed(&a);
	want_eq(ibv_dereg_mr(mr), 0);
	want_errno(ibv_dealloc_pd(dev.pd), EBUSY); /* the parent domain is on it */
	want_eq(ibv_dealloc_pd(pd), 0);
	peer_close(&dev);
}

/* No memory, or memory that is not aligned: the queue is not made. */
static void memory_refused(int answer)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 8, .max_sge = 2 } };
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct account a = { .answer = (unsigned int)answer };
	struct peer_dev dev;
	struct ibv_pd *pd;

	peer_open(&dev);
	pd = parent(&dev, &a, NULL);
	qp.send_cq = qp.recv_cq = ibv_create_cq(dev.ctx, 10, NULL, NULL, 0);
	want_null(ibv_create_qp(pd, &qp), ENOMEM);
	want_null(ibv_create_srq(pd, &srq), ENOMEM);
	want_null(cq_in(dev.ctx, pd, 10), ENOMEM);
	all_freed(&a);
	want_eq(ibv_destroy_cq(qp.send_cq), 0);
	want_eq(ibv_dealloc_pd(pd), 0);
	peer_close(&dev);
}

static void memory_of_a_work_queue(int answer)
{
	struct account a = { .answer = (unsigned int)answer };
	struct ibv_wq_init_attr attr = { .wq_type = IBV_WQT_RQ, .max_wr = 8, .max_sge = 2 };
	struct peer_dev dev;
	struct ibv_pd *pd;
	struct ibv_wq *wq;

	peer_open(&dev);
	attr.pd = pd = parent(&dev, &a, NULL);
	attr.cq = ibv_create_cq(dev.ctx, 10, NULL, NULL, 0);
	if (answer == NOTHING || answer == CROOKED) {
		want_null(ibv_create_wq(dev.ctx, &attr), ENOMEM);
	} else {
		wq = ibv_create_wq(dev.ctx, &attr);
		want(wq != NULL);
		want_eq(a.made[MLX5DV_RES_TYPE_RWQ & 0xff], answer == OWN);
		want_errno(ibv_dealloc_pd(pd), EBUSY);
		want_eq(ibv_destroy_wq(wq), 0);
	}
	all_freed(&a);
	want_eq(ibv_destroy_cq(attr.cq), 0);
	want_eq(ibv_dealloc_pd(pd), 0);
	peer_close(&dev);
}

/* An object of a parent domain and one of its PD are of one domain. */
static void one_protection_domain(int arg)
{
	static uint8_t mem[4096] __attribute__((aligned(4096)));
	struct peer_dev dev;
	struct ibv_mr *mr;
	struct ibv_pd *pd;

	(void)arg;
	peer_open(&dev);
	pd = parent(&dev, NULL, NULL);
	mr = ibv_reg_mr(dev.pd, mem, sizeof(mem), ALL);
	traffic(&dev, pd, mr, mem, NULL, NULL);
	want_eq(ibv_dereg_mr(mr), 0);
	want_eq(ibv_dealloc_pd(pd), 0);
	peer_close(&dev);
}

static void domain_errnos(int arg)
{
	struct ibv_parent_domain_init_attr attr = { 0 };
	struct ibv_td_init_attr td_attr = { .comp_mask = 1 };
	struct ibv_context *other;
	struct peer_dev dev;
	struct ibv_pd *pd, *far_pd;
	struct ibv_td *td;

	(void)arg;
	peer_open(&dev);
	other = ibv_open_device(dev.ctx->device);
	far_pd = ibv_alloc_pd(other);
	want_null(ibv_alloc_td(dev.ctx, &td_attr), EINVAL);
	td_attr.comp_mask = 0;
	td = ibv_alloc_td(dev.ctx, &td_attr);
	want(td != NULL && td->context == dev.ctx);
	want_null(ibv_alloc_parent_domain(dev.ctx, &attr), EINVAL);
	attr.pd = far_pd;
	want_null(ibv_alloc_parent_domain(dev.ctx, &attr), EINVAL);
	attr.pd = dev.pd;
	attr.comp_mask = 1 << 3;
	want_null(ibv_alloc_parent_domain(dev.ctx, &attr), EINVAL);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	attr.alloc = account_alloc;
	want_null(ibv_alloc_parent_domain(dev.ctx, &attr), EINVAL);
	attr.alloc = NULL;
	attr.free = account_free;
	want_null(ibv_alloc_parent_domain(dev.ctx, &attr), EINVAL);
	want_null(cq_in(dev.ctx, dev.pd, 10), EINVAL); /* no parent domain */
	want_null(cq_in(dev.ctx, NULL, 10), EINVAL);
	pd = parent(&dev, NULL, td);
	want_errno(ibv_dealloc_td(td), EBUSY);
	want_null(cq_in(other, pd, 10), EINVAL);
	want_eq(ibv_dealloc_pd(pd), 0);
	want_eq(ibv_dealloc_td(td), 0);
	want_eq(ibv_dealloc_pd(far_pd), 0);
	want_eq(ibv_close_device(other), 0);
	peer_close(&dev);
}

/* --- importing --- */

static struct ibv_context *import(struct ibv_context *ctx)
{
	int fd = dup(ctx->cmd_fd);
	struct ibv_context *imported = ibv_import_device(fd);

	if (!imported)
		die("ibv_import_device");
	want_eq(imported->cmd_fd, fd);
	want(imported->device == ctx->device);
	return imported;
}

static void imported_objects_work(int arg)
{
	static uint8_t mem[4096] __attribute__((aligned(4096)));
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_dm *dm, *dm2;
	struct ibv_mr *mr, *mr2;
	struct peer_dev dev, in;
	int fd;

	(void)arg;
	peer_open(&dev);
	mr = ibv_reg_mr(dev.pd, mem, sizeof(mem), ALL);
	in = dev;
	in.ctx = import(dev.ctx);
	fd = in.ctx->cmd_fd;
	in.pd = ibv_import_pd(in.ctx, dev.pd->handle);
	want(in.pd && in.pd != dev.pd && in.pd->context == in.ctx);
	want_eq(in.pd->handle, dev.pd->handle);
	mr2 = ibv_import_mr(in.pd, mr->handle);
	want(mr2 && mr2 != mr && !mr2->addr && mr2->pd == in.pd);
	want(mr2->lkey == mr->lkey && mr2->rkey == mr->rkey && mr2->length == mr->length);
	traffic(&in, dev.pd, mr2, mem, NULL, NULL);
	traffic(&dev, in.pd, mr, mem, NULL, NULL);
	want_eq(ibv_rereg_mr(mr2, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL),
		IBV_REREG_MR_ERR_INPUT);
	want_eq(errno, EINVAL);
	dm = ibv_alloc_dm(dev.ctx, &dm_attr);
	dm2 = ibv_import_dm(in.ctx, dm->handle);
	want(dm2 && dm2 != dm && dm2->context == in.ctx);
	want_eq(ibv_memcpy_to_dm(dm, 0, "shared!", 8), 0);
	want_eq(ibv_memcpy_from_dm(mem, dm2, 0, 8), 0);
	want(!strcmp((char *)mem, "shared!"));
	ibv_unimport_dm(dm2);
	ibv_unimport_mr(mr2);
	ibv_unimport_pd(in.pd);
	want_eq(ibv_close_device(in.ctx), 0);
	want(fcntl(fd, F_GETFD) < 0); /* closed with it */
	want_eq(ibv_free_dm(dm), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	peer_close(&dev);
}

/* Destroying by the second name destroys the object; the first is then only given up. */
static void destroyed_by_another_name(int arg)
{
	static uint8_t mem[4096] __attribute__((aligned(4096)));
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_dm *dm, *dm2;
	struct ibv_mr *mr, *mr2;
	struct ibv_pd *pd, *pd2;
	struct ibv_context *in;
	struct peer_dev dev;

	(void)arg;
	peer_open(&dev);
	in = import(dev.ctx);
	pd = ibv_alloc_pd(dev.ctx);
	mr = ibv_reg_mr(pd, mem, sizeof(mem), ALL);
	dm = ibv_alloc_dm(dev.ctx, &dm_attr);
	pd2 = ibv_import_pd(in, pd->handle);
	mr2 = ibv_import_mr(pd2, mr->handle);
	dm2 = ibv_import_dm(in, dm->handle);
	want(pd2 && mr2 && dm2);
	want_errno(ibv_dealloc_pd(pd2), EBUSY); /* the region is on it */
	want_eq(ibv_dereg_mr(mr2), 0);
	want_errno(ibv_dereg_mr(mr), EINVAL);
	want_null(ibv_import_mr(pd2, mr->handle), EINVAL);
	ibv_unimport_mr(mr);
	want_eq(ibv_dealloc_pd(pd2), 0);
	want_null(ibv_reg_mr(pd, mem, sizeof(mem), ALL), EINVAL);
	want_null(ibv_import_pd(in, pd->handle), EINVAL);
	want_errno(ibv_dealloc_pd(pd), EINVAL);
	ibv_unimport_pd(pd);
	want_eq(ibv_free_dm(dm2), 0);
	want_eq(ibv_memcpy_to_dm(dm, 0, mem, 8), EINVAL);
	want_errno(ibv_free_dm(dm), EINVAL);
	ibv_unimport_dm(dm);
	want_eq(ibv_close_device(in), 0);
	peer_close(&dev);
}

/* What ibv_open_device made and what is made on its imported name are of one context. */
static void objects_of_both_names(int arg)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_SEND,
					    .cap = { 1, 1, 1, 1, 0 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct ibv_wq_init_attr wq_init = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1 };
	struct ibv_rwq_ind_table_init_attr table_init = { 0 };
	struct ibv_rwq_ind_table *table;
	struct ibv_context *in;
	struct peer_dev dev;
	struct ibv_qp *qp;
	struct ibv_wq *wq;

	(void)arg;
	peer_open(&dev);
	in = import(dev.ctx);
	init.pd = ibv_import_pd(in, dev.pd->handle);
	init.send_cq = init.recv_cq = wq_init.cq = ibv_create_cq(dev.ctx, 4, NULL, NULL, 0);
	qp = ibv_create_qp_ex(in, &init);
	want(qp != NULL);
	want_eq(ibv_destroy_qp(qp), 0);
	wq_init.pd = init.pd;
	wq = ibv_create_wq(dev.ctx, &wq_init);
	want(wq != NULL);
	table_init.ind_tbl = &wq;
	table = ibv_create_rwq_ind_table(in, &table_init);
	want(table != NULL);
	want_eq(ibv_destroy_rwq_ind_table(table), 0);
	want_eq(ibv_destroy_wq(wq), 0);
	want_eq(ibv_destroy_cq(init.send_cq), 0);
	ibv_unimport_pd(init.pd);
	want_eq(ibv_close_device(in), 0);
	peer_close(&dev);
}

/* Names are given up in any order: the PD's while a queue pair lives on it, the device's first. */
static void given_up_in_any_order(int arg)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_context *in;
	struct peer_dev dev;
	struct ibv_pd *pd;
	struct ibv_qp *qp;

	(void)arg;
	peer_open(&dev);
	in = import(dev.ctx);
	pd = ibv_import_pd(in, dev.pd->handle);
	init.send_cq = init.recv_cq = ibv_create_cq(in, 4, NULL, NULL, 0);
	qp = ibv_create_qp(pd, &init);
	want(qp != NULL);
	ibv_unimport_pd(pd);
	want_errno(ibv_dealloc_pd(dev.pd), EBUSY); /* by the queue pair */
	want_eq(ibv_destroy_qp(qp), 0);
	want_eq(ibv_destroy_cq(init.send_cq), 0);
	pd = ibv_import_pd(in, dev.pd->handle);
	want_eq(ibv_dealloc_pd(dev.pd), 0); /* a name alone does not hinder */
	want_eq(ibv_close_device(dev.ctx), 0);
	ibv_unimport_pd(pd);
	pd = ibv_alloc_pd(in); /* the imported device lives on */
	want(pd != NULL);
	want_eq(ibv_dealloc_pd(pd), 0);
	want_eq(ibv_close_device(in), 0);
}

/* Of a PD or device memory whose names were all given up nothing is left, nor does it count. */
static void ended_with_the_last_name(int arg)
{
	struct ibv_alloc_dm_attr dm_attr = { 0 };
	struct ibv_device_attr_ex limit;
	struct ibv_context *in;
	struct ibv_pd *pd, *pd2;
	struct ibv_dm *dm, *dm2;
	struct peer_dev dev;
	uint32_t handle;

	(void)arg;
	peer_open(&dev);
	want_eq(ibv_query_device_ex(dev.ctx, NULL, &limit), 0);
	in = import(dev.ctx);
	for (int i = 0; i <= limit.orig_attr.max_pd; i++) {
		pd = ibv_alloc_pd(dev.ctx);
		want(pd != NULL);
		handle = pd->handle;
		pd2 = i % 2 ? ibv_import_pd(in, handle) : NULL;
		ibv_unimport_pd(pd);
		if (pd2) {
			want((pd = ibv_import_pd(in, handle)) != NULL); /* it is still there */
			ibv_unimport_pd(pd2);
			ibv_unimport_pd(pd);
		}
		want_null(ibv_import_pd(in, handle), EINVAL);
	}
	dm_attr.length = limit.max_dm_size;
	for (int i = 0; i < 10; i++) {
		dm = ibv_alloc_dm(dev.ctx, &dm_attr);
		want(dm != NULL);
		handle = dm->handle;
		dm2 = i % 2 ? ibv_import_dm(in, handle) : NULL;
		ibv_unimport_dm(dm);
		if (dm2) {
			want((dm = ibv_import_dm(in, handle)) != NULL);
			ibv_unimport_dm(dm2);
			ibv_unimport_dm(dm);
		}
		want_null(ibv_import_dm(in, handle), EINVAL);
	}
	want_eq(ibv_close_device(in), 0);
	peer_close(&dev);
}

/* The last name is given up while a region lives: the domain ends with the region. */
static void ended_with_the_last_object(int arg)
{
	struct ibv_device_attr limit;
	struct peer_dev dev;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	uint32_t handle;
	uint8_t byte;

	(void)arg;
	peer_open(&dev);
	want_eq(ibv_query_device(dev.ctx, &limit), 0);
	for (int i = 0; i <= limit.max_pd; i++) {
		pd = ibv_alloc_pd(dev.ctx);
		want(pd != NULL);
		handle = pd->handle;
		mr = ibv_reg_mr(pd, &byte, 1, ALL);
		want(mr != NULL);
		ibv_unimport_pd(pd);
		pd = ibv_import_pd(dev.ctx, handle);
		want(pd != NULL);
		ibv_unimport_pd(pd);
		want_eq(ibv_dereg_mr(mr), 0);
		want_null(ibv_import_pd(dev.ctx, handle), EINVAL);
	}
	peer_close(&dev);
}

/* A parent domain that is given up leaves its PD and its thread domain free. */
static void parent_given_up(int arg)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct peer_dev dev;
	struct ibv_td *td;

	(void)arg;
	peer_open(&dev);
	td = ibv_alloc_td(dev.ctx, &td_attr);
	want(td != NULL);
	ibv_unimport_pd(parent(&dev, NULL, td));
	want_eq(ibv_dealloc_td(td), 0);
	peer_close(&dev); /* and the PD with it */
}

static void import_errnos(int arg)
{
	struct ibv_context *other;
	struct ibv_mr *mr;
	struct peer_dev dev;
	uint32_t handle;
	uint8_t byte;
	int fd;

	(void)arg;
	peer_open(&dev);
	other = ibv_open_device(dev.ctx->device);
	mr = ibv_reg_mr(dev.pd, &byte, 1, ALL);
	want_null(ibv_import_device(-1), EBADF);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	want_null(ibv_import_device(fd), EINVAL);
	want(fcntl(fd, F_GETFD) >= 0); /* still the caller's */
	want_null(ibv_import_pd(dev.ctx, 0xfffff0), EINVAL);
	want_null(ibv_import_pd(other, dev.pd->handle), EINVAL);
	want_null(ibv_import_mr(dev.pd, 0xfffff0), EINVAL);
	want_null(ibv_import_dm(dev.ctx, 77), EINVAL);
	handle = mr->handle;
	want_eq(ibv_dereg_mr(mr), 0);
	want_null(ibv_import_mr(dev.pd, handle), EINVAL);
	want_eq(ibv_close_device(other), 0);
	peer_close(&dev);
}

/* The descriptor of another process' device, by SCM_RIGHTS. */
static int send_cmd_fd(int sock, void *arg)
{
	char byte = 0, room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	struct peer_dev dev;

	(void)arg;
	peer_open(&dev);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &dev.ctx->cmd_fd, sizeof(int));
	want_eq(sendmsg(sock, &m, 0), 1);
	peer_sync(sock);
	peer_close(&dev);
	return 0;
}

static void foreign_device(int arg)
{
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct peer_dev dev;
	int sock, fd;
	pid_t pid;

	(void)arg;
	pid = peer_fork(send_cmd_fd, NULL, &sock);
	want_eq(recvmsg(sock, &m, 0), 1);
	want(CMSG_FIRSTHDR(&m) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	want_null(ibv_import_device(fd), EOPNOTSUPP); /* nothing is open here */
	peer_open(&dev);
	want_null(ibv_import_device(fd), EOPNOTSUPP);
	peer_close(&dev);
	peer_sync(sock);
	want_eq(peer_wait(pid), 0);
}

static const struct test_case cases[] = {
	CASE_ARG(memory_functions, OWN),
	CASE_ARG(memory_functions, DEFAULT),
	CASE_ARG(memory_refused, NOTHING),
	CASE_ARG(memory_refused, CROOKED),
	CASE_ARG(memory_of_a_work_queue, OWN),
	CASE_ARG(memory_of_a_work_queue, DEFAULT),
	CASE_ARG(memory_of_a_work_queue, NOTHING),
	CASE_ARG(memory_of_a_work_queue, CROOKED),
	CASE(one_protection_domain),
	CASE(domain_errnos),
	CASE(imported_objects_work),
	CASE(destroyed_by_another_name),
	CASE(objects_of_both_names),
	CASE(given_up_in_any_order),
	CASE(ended_with_the_last_name),
	CASE(ended_with_the_last_object),
	CASE(parent_given_up),
	CASE(import_errnos),
	CASE(foreign_device),
};

int main(void)
{
	return CASES_RUN(cases);
}
