// SPDX-License-Identifier: MIT
/* Who may be destroyed when: EBUSY while something stands on it, and waiting for
 * acknowledgements. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "verbs/cases.h"

static struct peer_dev dev;
static uint8_t mem[4096];

static void begin(void)
{
	peer_open(&dev);
}

static struct ibv_cq *make_cq(struct ibv_comp_channel *ch)
{
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 16, NULL, ch, 0);

	if (!cq)
		die("ibv_create_cq");
	return cq;
}

static struct ibv_qp *make_qp(struct ibv_cq *send, struct ibv_cq *recv, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC,
				      .send_cq = send,
				      .recv_cq = recv,
				      .srq = srq,
				      .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &a);

	if (!qp)
		die("ibv_create_qp");
	return qp;
}

static void pd_is_busy_with_each_kind(int arg)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct ibv_qp *qp;
	struct ibv_srq *srq;

	(void)arg;
	begin();
	cq = make_cq(NULL);
	mr = ibv_reg_mr(dev.pd, mem, sizeof(mem), 0);
	want(mr);
	want_errno(ibv_dealloc_pd(dev.pd), EBUSY);
	want_eq(ibv_dereg_mr(mr), 0);
	ah = peer_ah(&dev, &(struct peer_addr){ .gid = dev.gid });
	want_errno(ibv_dealloc_pd(dev.pd), EBUSY);
	want_eq(ibv_destroy_ah(ah), 0);
	qp = make_qp(cq, cq, NULL);
	want_errno(ibv_dealloc_pd(dev.pd), EBUSY);
	want_eq(ibv_destroy_qp(qp), 0);
	srq = ibv_create_srq(dev.pd, &sa);
	want(srq);
	want_errno(ibv_dealloc_pd(dev.pd), EBUSY);
	want_eq(ibv_destroy_srq(srq), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	peer_close(&dev);
}

/* Each of the two roles of a CQ holds it for itself. */
static void cq_is_busy_with_either_queue(int arg)
{
	struct ibv_cq *send, *recv;
	struct ibv_qp *qp;

	(void)arg;
	begin();
	send = make_cq(NULL);
	recv = make_cq(NULL);
	qp = make_qp(send, recv, NULL);
	want_errno(ibv_destroy_cq(send), EBUSY);
	want_errno(ibv_destroy_cq(recv), EBUSY);
	want_eq(ibv_destroy_qp(qp), 0);
	want_eq(ibv_destroy_cq(send), 0);
	want_eq(ibv_destroy_cq(recv), 0);
	peer_close(&dev);
}

static void srq_is_busy_with_qps(int arg)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];

	(void)arg;
	begin();
	srq = ibv_create_srq(dev.pd, &sa);
	want(srq);
	cq = make_cq(NULL);
	qp[0] = make_qp(cq, cq, srq);
	qp[1] = make_qp(cq, cq, srq);
	want_errno(ibv_destroy_srq(srq), EBUSY);
	want_eq(ibv_destroy_qp(qp[0]), 0);
	want_errno(ibv_destroy_srq(srq), EBUSY);
	want_eq(ibv_destroy_qp(qp[1]), 0);
	want_eq(ibv_destroy_srq(srq), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	peer_close(&dev);
}

static void channel_is_busy_with_cqs(int arg)
{
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;

	(void)arg;
	begin();
	ch = ibv_create_comp_channel(dev.ctx);
	want(ch);
	cq = make_cq(ch);
	want_errno(ibv_destroy_comp_channel(ch), EBUSY);
	want_eq(ibv_destroy_cq(cq), 0);
	want_eq(ibv_destroy_comp_channel(ch), 0);
	peer_close(&dev);
}

static void attached_qp_is_busy(int arg)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };
	struct peer_opts o = { .type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 0 } };
	struct peer_ep ep;

	(void)arg;
	begin();
	peer_ep_create(&dev, &o, &ep);
	want_eq(ibv_attach_mcast(ep.qp, &group, 0), 0);
	want_errno(ibv_destroy_qp(ep.qp), EBUSY);
	want_eq(ibv_detach_mcast(ep.qp, &group, 0), 0);
	peer_ep_destroy(&ep);
	peer_close(&dev);
}

/* --- destroy waits for the acknowledgement --- */

struct destroyer {
	pthread_t thread;
	pid_t tid; /* told before the call */
	int pipe[2];
	int (*destroy)(void *object);
	void *object;
	bool done;
	int result;
};

static void *destroy_thread(void *arg)
{
	struct destroyer *d = arg;

	d->tid = (pid_t)syscall(SYS_gettid);
	if (write(d->pipe[1], "t", 1) != 1)
		die("write");
	d->result = d->destroy(d->object);
	__atomic_store_n(&d->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* The kernel's one-letter state of a thread of ours. */
static char thread_state(pid_t tid)
{
	char path[64], buf[512] = "", *p;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, buf, sizeof(buf) - 1) <= 0)
		die(path);
	close(fd);
	p = strrchr(buf, ')');
	return p && p[1] ? p[2] : '?';
}

/* Starts the destruction and returns when its thread is blocked in it. */
static void destroy_blocks(struct destroyer *d)
{
	char c;

	if (pipe(d->pipe) || pthread_create(&d->thread, NULL, destroy_thread, d))
		die("pthread_create");
	want_eq(read(d->pipe[0], &c, 1), 1);
	while (thread_state(d->tid) != 'S')
		want(!__atomic_load_n(&d->done, __ATOMIC_ACQUIRE));
	want(!__atomic_load_n(&d->done, __ATOMIC_ACQUIRE));
}

static void destroy_ended(struct destroyer *d)
{
	want_eq(pthread_join(d->thread, NULL), 0);
	want_eq(d->result, 0);
}

static int destroy_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static int destroy_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

/* A QP in ERR whose one receive has been flushed on @cq. */
static struct ibv_qp *flush_one(struct ibv_cq *cq)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_qp_attr e = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp = make_qp(cq, cq, NULL);

	peer_init(&(struct peer_ep){ .qp = qp }, &(struct peer_opts){ .type = IBV_QPT_RC });
	want_eq(ibv_post_recv(qp, &wr, &bad), 0);
	want_eq(ibv_modify_qp(qp, &e, IBV_QP_STATE), 0);
	return qp;
}

static void destroy_cq_waits_for_ack(int arg)
{
	struct destroyer d = { .destroy = destroy_cq };
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq, *got;
	struct ibv_qp *qp;
	void *ctx;

	(void)arg;
	begin();
	ch = ibv_create_comp_channel(dev.ctx);
	want(ch);
	cq = make_cq(ch);
	for (int i = 0; i < 2; i++) {
		want_eq(ibv_req_notify_cq(cq, 0), 0);
		qp = flush_one(cq);
		want_eq(ibv_get_cq_event(ch, &got, &ctx), 0);
		want_eq(ibv_destroy_qp(qp), 0);
	}
	d.object = cq;
	destroy_blocks(&d);
	ibv_ack_cq_events(cq, 1);
	want(!__atomic_load_n(&d.done, __ATOMIC_ACQUIRE)); /* one of two */
	ibv_ack_cq_events(cq, 1);
	destroy_ended(&d);
	want_eq(ibv_destroy_comp_channel(ch), 0);
	peer_close(&dev);
}

/* An event that nobody has taken needs no acknowledgement, and vanishes with its CQ. */
static void destroy_cq_drops_what_was_not_taken(int arg)
{
	struct ibv_comp_channel *ch;
	struct pollfd p = { .events = POLLIN };
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	(void)arg;
	begin();
	ch = ibv_create_comp_channel(dev.ctx);
	want(ch);
	cq = make_cq(ch);
	want_eq(ibv_req_notify_cq(cq, 0), 0);
	qp = flush_one(cq);
	p.fd = ch->fd;
	want_eq(poll(&p, 1, 0), 1);
	want_eq(ibv_destroy_qp(qp), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	want_eq(poll(&p, 1, 0), 0);
	want_eq(ibv_destroy_comp_channel(ch), 0);
	peer_close(&dev);
}

static void destroy_qp_waits_for_ack(int arg)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct destroyer d = { .destroy = destroy_qp };
	struct ibv_qp_attr e = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event ev;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	(void)arg;
	begin();
	srq = ibv_create_srq(dev.pd, &sa);
	want(srq);
	cq = make_cq(NULL);
	qp = make_qp(cq, cq, srq);
	peer_init(&(struct peer_ep){ .qp = qp }, &(struct peer_opts){ .type = IBV_QPT_RC });
	want_eq(ibv_modify_qp(qp, &e, IBV_QP_STATE), 0);
	want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
	want_eq(ev.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	want(ev.element.qp == qp);
	d.object = qp;
	destroy_blocks(&d);
	ibv_ack_async_event(&ev);
	destroy_ended(&d);
	want_eq(ibv_destroy_srq(srq), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	peer_close(&dev);
}

/* --- memory of a parent domain's functions, which go with it --- */

static int lent; /* rings that the program has not got back */

static void *lend(struct ibv_pd *pd, void *context, size_t size, size_t align, uint64_t type)
{
	void *p = aligned_alloc(align, size);

	(void)pd;
	(void)context;
	(void)type;
	want(p);
	lent++;
	return p;
}

static void take_back(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	(void)pd;
	(void)context;
	(void)type;
	lent--;
	free(p);
}

static struct ibv_pd *make_parent(void)
{
	struct ibv_parent_domain_init_attr a = { .pd = dev.pd,
						 .comp_mask =
							 IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
						 .alloc = lend,
						 .free = take_back };
	struct ibv_pd *pd = ibv_alloc_parent_domain(dev.ctx, &a);

	if (!pd)
		die("ibv_alloc_parent_domain");
	return pd;
}

/* While destroying waits for the acknowledgement of @ev, rings are still to go back. */
static void domain_stays(struct ibv_pd *parent, struct destroyer *d, struct ibv_async_event *ev)
{
	destroy_blocks(d);
	want(lent > 0);
	want_errno(ibv_dealloc_pd(parent), EBUSY);
	ibv_ack_async_event(ev);
	destroy_ended(d);
	want_eq(lent, 0);
	want_eq(ibv_dealloc_pd(parent), 0);
}

static void domain_stays_for_a_qp(int arg)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_attr e = { .qp_state = IBV_QPS_ERR };
	struct destroyer d = { .destroy = destroy_qp };
	struct ibv_pd *plain, *parent;
	struct ibv_async_event ev;
	struct ibv_srq *srq;
	struct ibv_cq *cq;

	(void)arg;
	begin();
	plain = dev.pd;
	parent = make_parent();
	srq = ibv_create_srq(plain, &sa);
	want(srq);
	cq = make_cq(NULL);
	dev.pd = parent;
	d.object = make_qp(cq, cq, srq);
	dev.pd = plain;
	peer_init(&(struct peer_ep){ .qp = d.object }, &(struct peer_opts){ .type = IBV_QPT_RC });
	want_eq(ibv_modify_qp(d.object, &e, IBV_QP_STATE), 0);
	want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
	want_eq(ev.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	domain_stays(parent, &d, &ev);
	want_eq(ibv_destroy_srq(srq), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	peer_close(&dev);
}

static int destroy_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

/* @srq has one receive, and falls below its limit. */
static void take_from(struct ibv_srq *srq)
{
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct peer_opts from = { .type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } }, to = from;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_recv_wr rwr = { .wr_id = 1 }, *badr;
	struct peer_ep a, b;
	struct ibv_wc wc;

	to.srq = srq;
	peer_ep_create(&dev, &from, &a);
	peer_ep_create(&dev, &to, &b);
	a.theirs = b.mine;
	b.theirs = a.mine;
	peer_connect(&a, &from);
	peer_connect(&b, &to);
	want_eq(ibv_post_srq_recv(srq, &rwr, &badr), 0);
	want_eq(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	want_eq(ibv_post_send(a.qp, &wr, &bad), 0);
	peer_poll_ok(a.scq, &wc);
	peer_poll_ok(b.rcq, &wc);
	peer_ep_destroy(&a);
	peer_ep_destroy(&b);
}

static void domain_stays_for_an_srq(int arg)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct destroyer d = { .destroy = destroy_srq };
	struct ibv_async_event ev;
	struct ibv_pd *parent;

	(void)arg;
	begin();
	parent = make_parent();
	d.object = ibv_create_srq(parent, &sa);
	want(d.object);
	take_from(d.object);
	want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
	want_eq(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	domain_stays(parent, &d, &ev);
	peer_close(&dev);
}

static const struct test_case cases[] = {
	CASE(pd_is_busy_with_each_kind),
	CASE(cq_is_busy_with_either_queue),
	CASE(srq_is_busy_with_qps),
	CASE(channel_is_busy_with_cqs),
	CASE(attached_qp_is_busy),
	CASE(destroy_cq_waits_for_ack),
	CASE(destroy_cq_drops_what_was_not_taken),
	CASE(destroy_qp_waits_for_ack),
	CASE(domain_stays_for_a_qp),
	CASE(domain_stays_for_an_srq),
};

int main(void)
{
	return CASES_RUN(cases);
}
