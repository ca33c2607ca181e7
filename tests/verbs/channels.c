// SPDX-License-Identifier: MIT
/* Completion queues and their channels: arming, events, O_NONBLOCK and epoll, resizing,
 * overrun. The peer lives in this process; statuses.c and flush.c run over both links. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

/* Two QPs of this process, connected; a's completions on `cq`, which has a channel. */
static struct peer_dev dev;
static struct peer_ep a, b;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq, *other;
static struct ibv_mr *mr;
static uint8_t mem[4096];
static int context; /* its address is the CQ's */
static enum ibv_qp_type type = IBV_QPT_RC;

static struct ibv_qp *make_qp(struct ibv_cq *on)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type, .send_cq = on, .recv_cq = on, .cap = { 64, 64, 1, 1, 0 }
	};
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &init);

	if (!qp)
		die("ibv_create_qp");
	return qp;
}

static void join(void)
{
	struct peer_opts o = { .type = type, .min_rnr_timer = 1 };

	a.mine = (struct peer_addr){ .qpn = a.qp->qp_num, .gid = dev.gid };
	b.mine = (struct peer_addr){ .qpn = b.qp->qp_num, .gid = dev.gid };
	a.theirs = b.mine;
	b.theirs = a.mine;
	peer_connect(&a, &o);
	peer_connect(&b, &o);
}

static void begin_cqe(int cqe)
{
	peer_open(&dev);
	channel = ibv_create_comp_channel(dev.ctx);
	if (!channel)
		die("ibv_create_comp_channel");
	cq = ibv_create_cq(dev.ctx, cqe, &context, channel, 0);
	other = ibv_create_cq(dev.ctx, 256, NULL, NULL, 0);
	mr = ibv_reg_mr(dev.pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!cq || !other || !mr)
		die("begin");
	a.qp = make_qp(cq);
	b.qp = make_qp(other);
	join();
}

static void begin(void)
{
	begin_cqe(256);
}

static void end(void)
{
	want_eq(ibv_destroy_qp(a.qp), 0);
	want_eq(ibv_destroy_qp(b.qp), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	want_eq(ibv_destroy_cq(other), 0);
	want_eq(ibv_destroy_comp_channel(channel), 0);
	peer_close(&dev);
}

static void post_to(uint32_t rkey, struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id,
		    unsigned int flags)
{
	struct ibv_sge sg = { (uintptr_t)mem, 8, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = flags },
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)mem + 64;
	wr.wr.rdma.rkey = rkey;
	want_eq(ibv_post_send(qp, &wr, &bad), 0);
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id, unsigned int flags)
{
	post_to(mr->rkey, qp, op, id, flags);
}

static void write_one(uint64_t id)
{
	post(a.qp, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED);
}

static void receive(uint64_t id)
{
	struct ibv_sge sg = { (uintptr_t)mem + 128, 8, mr->lkey };

	peer_recv(&a, id, &sg, 1);
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static void event(void)
{
	struct ibv_cq *got = NULL;
	void *ctx = NULL;

	want(readable(channel->fd, 10000));
	want_eq(ibv_get_cq_event(channel, &got, &ctx), 0);
	want(got == cq && ctx == &context);
	ibv_ack_cq_events(cq, 1);
}

static void completion(uint64_t id)
{
	struct ibv_wc wc;

	peer_poll_ok(cq, &wc);
	want_eq(wc.wr_id, id);
}

/* --- arming --- */

static void one_event_for_one_arming(int arg)
{
	(void)arg;
	begin();
	want_eq(ibv_req_notify_cq(cq, 0), 0);
	want(!readable(channel->fd, 0));
	for (uint64_t i = 0; i < 3; i++)
		write_one(i);
	event();
	for (uint64_t i = 0; i < 3; i++)
		completion(i);
	want(!readable(channel->fd, 0));
	write_one(9);
	completion(9);
	want(!readable(channel->fd, 0)); /* not armed any more */
	end();
}

/* Arming looks forward: what lies in the CQ already raises nothing. */
static void no_event_for_an_old_completion(int arg)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;

	(void)arg;
	begin();
	receive(1);
	post(b.qp, IBV_WR_SEND, 1, IBV_SEND_SIGNALED);
	peer_poll_ok(other, &wc);
	/* The ACK may leave before the receive completes; who asks a QP waits for what it does. */
	want_eq(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	want_eq(ibv_req_notify_cq(cq, 0), 0);
	want(!readable(channel->fd, 20));
	completion(1);
	write_one(2);
	event();
	completion(2);
	end();
}

/* A send without the solicited flag does not wake who waits for solicited ones; one with it
 * does. */
static void solicited_only(int arg)
{
	struct ibv_wc wc;

	(void)arg;
	begin();
	for (uint64_t i = 0; i < 3; i++)
		receive(i);
	want_eq(ibv_req_notify_cq(cq, 1), 0);
	post(b.qp, IBV_WR_SEND, 1, IBV_SEND_SIGNALED);
	completion(0);
	want(!readable(channel->fd, 0));
	post(b.qp, IBV_WR_SEND, 2, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	event();
	completion(1);
	for (int i = 0; i < 2; i++)
		peer_poll_ok(other, &wc);
	end();
}

/* This side's own sends are not solicited. */
static void own_send_is_not_solicited(int arg)
{
	(void)arg;
	begin();
	want_eq(ibv_req_notify_cq(cq, 1), 0);
	post(a.qp, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	completion(1);
	want(!readable(channel->fd, 0));
	end();
}

/* Every failed completion wakes who waits for solicited ones. */
static void an_error_is_solicited(int arg)
{
	struct ibv_qp_attr e = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	(void)arg;
	begin();
	receive(1);
	want_eq(ibv_req_notify_cq(cq, 1), 0);
	want_eq(ibv_modify_qp(a.qp, &e, IBV_QP_STATE), 0);
	event();
	want(peer_poll(cq, &wc, 10000) && wc.status == IBV_WC_WR_FLUSH_ERR);
	end();
}

/* Arming for solicited ones after arming for all does not weaken it. */
static void a_stronger_arming_stays(int arg)
{
	(void)arg;
	begin();
	want_eq(ibv_req_notify_cq(cq, 0), 0);
	want_eq(ibv_req_notify_cq(cq, 1), 0);
	write_one(1);
	event();
	completion(1);
	end();
}

static void unsignalled_work_raises_nothing(int arg)
{
	(void)arg;
	begin();
	want_eq(ibv_req_notify_cq(cq, 0), 0);
	post(a.qp, IBV_WR_RDMA_WRITE, 1, 0);
	write_one(2); /* comes after it */
	event();
	completion(2);
	want(!readable(channel->fd, 0));
	end();
}

/* --- descriptors --- */

static void nonblocking_channel_says_eagain(int arg)
{
	struct ibv_cq *got;
	void *ctx;

	(void)arg;
	begin();
	want_eq(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
	errno = 0;
	want_eq(ibv_get_cq_event(channel, &got, &ctx), -1);
	want_eq(errno, EAGAIN);
	want_eq(ibv_req_notify_cq(cq, 0), 0);
	write_one(1);
	event();
	want_eq(ibv_get_cq_event(channel, &got, &ctx), -1);
	want_eq(errno, EAGAIN);
	completion(1);
	end();
}

static void async_fd_nonblocking_says_eagain(int arg)
{
	struct ibv_async_event ev;
	int fd;

	(void)arg;
	begin();
	fd = dev.ctx->async_fd;
	while (readable(fd, 0)) { /* that connections are up */
		want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
		ibv_ack_async_event(&ev);
	}
	want_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
	errno = 0;
	want_eq(ibv_get_async_event(dev.ctx, &ev), -1);
	want_eq(errno, EAGAIN);
	end();
}

/* Edge triggered: one edge for one event; level triggered: readable until it is taken. */
static void epoll_sees_the_channel(int edge)
{
	struct epoll_event e = { .events = EPOLLIN | (edge ? (uint32_t)EPOLLET : 0) };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	begin();
	want_eq(epoll_ctl(ep, EPOLL_CTL_ADD, channel->fd, &e), 0);
	want_eq(epoll_wait(ep, &e, 1, 0), 0);
	for (uint64_t i = 0; i < 3; i++) {
		want_eq(ibv_req_notify_cq(cq, 0), 0);
		write_one(i);
		want_eq(epoll_wait(ep, &e, 1, 10000), 1);
		want_eq(epoll_wait(ep, &e, 1, 0), edge ? 0 : 1);
		event();
		want_eq(epoll_wait(ep, &e, 1, 0), 0);
		completion(i);
	}
	close(ep);
	end();
}

/* The event of a program that sits in epoll on the fd and never polls: somebody else progresses. */
static void event_comes_without_polling(int where)
{
	struct duo duo;
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = !where };
	struct ibv_comp_channel *ch;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_sge sg;
	struct ibv_send_wr wr, *bad;
	struct ibv_cq *c, *got;
	void *ctx;

	duo_open(&duo, &o);
	ch = ibv_create_comp_channel(duo.near.dev.ctx);
	c = ibv_create_cq(duo.near.dev.ctx, 16, NULL, ch, 0);
	want(ch && c);
	init.send_cq = init.recv_cq = c;
	want_eq(ibv_destroy_qp(duo.near.ep.qp), 0);
	duo.near.ep.qp = ibv_create_qp(duo.near.dev.pd, &init);
	want(duo.near.ep.qp);
	duo.o.qp.timeout = 10;
	duo.o.qp.retry = 1;
	peer_connect(&duo.near.ep, &duo.o.qp);
	want_eq(ibv_req_notify_cq(c, 0), 0);
	wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &sg, 8); /* to a QP that knows us not: no answer */
	want_eq(ibv_post_send(duo.near.ep.qp, &wr, &bad), 0);
	want(readable(ch->fd, 10000));
	want_eq(ibv_get_cq_event(ch, &got, &ctx), 0);
	want(got == c);
	ibv_ack_cq_events(c, 1);
}

struct waiter {
	pthread_t thread;
	pid_t tid; /* atomic */
	struct ibv_comp_channel *on;
	int result, error;
};

static void *wait_for_event(void *arg)
{
	struct waiter *w = arg;
	struct ibv_cq *got;
	void *ctx;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	w->result = ibv_get_cq_event(w->on, &got, &ctx);
	w->error = errno;
	if (!w->result)
		ibv_ack_cq_events(got, 1);
	return NULL;
}

/* An allocator keeps small blocks apart by their size. What nobody keeps a compiler need not
 * allocate, and then there is no end of it. */
static void take_all_memory(void)
{
	void *volatile taken;

	for (size_t n = 1 << 20; n >= 16; n -= n > 2048 ? n / 2 : 16)
		do
			taken = malloc(n);
		while (taken);
}

/* Nothing calls the engine when there is memory again. Nor does UC have a timer that does. */
static void work_that_lacked_memory_is_done_without_polling(int arg)
{
	struct pollfd p = { .events = POLLIN };
	struct rlimit before, none;

	(void)arg;
	if (cases_sanitized())
		case_skip("a sanitizer's allocator ends the program");
	type = IBV_QPT_UC;
	begin();
	p.fd = channel->fd;
	want_eq(ibv_req_notify_cq(cq, 0), 0);
	write_one(0); /* the next one needs no other memory than a segment's */
	event(); /* nor is there a poll, behind which the engine would look by itself */
	want_eq(ibv_req_notify_cq(cq, 0), 0);
	want_eq(getrlimit(RLIMIT_AS, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	setrlimit(RLIMIT_AS, &none);
	take_all_memory();
	write_one(1);
	setrlimit(RLIMIT_AS, &before);
	want_eq(poll(&p, 1, 10000), 1);
	event();
	completion(0);
	completion(1);
	end();
}

/* Two of them: the one that is the engine meanwhile, and another. */
static void a_channel_that_ends_wakes_who_waits(int arg)
{
	struct ibv_comp_channel *ending;
	struct waiter w[2];

	(void)arg;
	begin();
	ending = ibv_create_comp_channel(dev.ctx);
	want(ending);
	for (int i = 0; i < 2; i++) {
		w[i] = (struct waiter){ .on = ending };
		want_eq(pthread_create(&w[i].thread, NULL, wait_for_event, &w[i]), 0);
		peer_until_asleep(&w[i].tid);
	}
	want_eq(ibv_destroy_comp_channel(ending), 0);
	for (int i = 0; i < 2; i++) {
		want_eq(pthread_join(w[i].thread, NULL), 0);
		want_eq(w[i].result, -1);
		want_eq(w[i].error, EBADF);
	}
	write_one(1);
	completion(1);
	end();
}

static void a_blocked_thread_is_woken(int arg)
{
	struct waiter w = { .result = -2 };

	(void)arg;
	begin();
	w.on = channel;
	want_eq(ibv_req_notify_cq(cq, 0), 0);
	want_eq(pthread_create(&w.thread, NULL, wait_for_event, &w), 0);
	write_one(1);
	want_eq(pthread_join(w.thread, NULL), 0);
	want_eq(w.result, 0);
	completion(1);
	end();
}

/* --- resizing --- */

static void resize_keeps_what_is_in_it(int arg)
{
	uint64_t next = 0, taken = 0;

	(void)arg;
	begin_cqe(63);
	for (int round = 0; round < 12; round++) {
		static const int sizes[] = { 100, 63, 200, 31, 500, 64 };

		for (int i = 0; i < 20; i++)
			write_one(next++);
		want_eq(ibv_resize_cq(cq, sizes[round % 6]), 0);
		want(cq->cqe >= sizes[round % 6]);
		for (int i = 0; i < 20; i++)
			completion(taken++);
	}
	end();
}

/* Nobody may look into the CQ before, so the last of what must be in it is an error: the event of
 * that one comes when all before it are there. */
static void resize_below_its_content_changes_nothing(int arg)
{
	struct ibv_wc wc;
	int cqe;

	(void)arg;
	begin_cqe(63);
	cqe = cq->cqe;
	want_eq(ibv_req_notify_cq(cq, 1), 0);
	for (uint64_t i = 0; i < 40; i++)
		write_one(i);
	post_to(~mr->rkey, a.qp, IBV_WR_RDMA_WRITE, 40, IBV_SEND_SIGNALED);
	event();
	want_errno(ibv_resize_cq(cq, 4), EINVAL);
	want_eq(cq->cqe, cqe);
	for (uint64_t i = 0; i < 40; i++)
		completion(i);
	want(peer_poll(cq, &wc, 0) && wc.wr_id == 40 && wc.status == IBV_WC_REM_ACCESS_ERR);
	end();
}

/* --- overrun --- */

static void overrun_tells_cq_and_qp(int arg)
{
	struct ibv_async_event ev;
	bool cq_err = false, fatal = false;
	int n;

	(void)arg;
	begin_cqe(7);
	n = cq->cqe + 2;
	for (int i = 0; i < n; i++)
		write_one((uint64_t)i);
	while (!cq_err || !fatal) {
		want(readable(dev.ctx->async_fd, 10000));
		want_eq(ibv_get_async_event(dev.ctx, &ev), 0);
		if (ev.event_type == IBV_EVENT_CQ_ERR) {
			want(!cq_err && ev.element.cq == cq);
			cq_err = true;
		} else if (ev.event_type == IBV_EVENT_QP_FATAL) {
			want(!fatal && ev.element.qp == a.qp);
			fatal = true;
		}
		ibv_ack_async_event(&ev);
	}
	end();
}

static void a_full_cq_is_no_overrun(int arg)
{
	int n;

	(void)arg;
	begin_cqe(7);
	n = cq->cqe;
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < n; i++)
			write_one((uint64_t)i);
		for (int i = 0; i < n; i++)
			completion((uint64_t)i);
	}
	end();
}

/* --- queries --- */

static void query_qp_says_what_was_set(int arg)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr q;

	(void)arg;
	begin();
	memset(&q, 0xee, sizeof(q));
	want_eq(ibv_query_qp(a.qp, &q, IBV_QP_STATE, &init), 0);
	want_eq(q.qp_state, IBV_QPS_RTS);
	want_eq(q.cur_qp_state, IBV_QPS_RTS);
	want_eq(q.dest_qp_num, b.qp->qp_num);
	want_eq(q.path_mtu, IBV_MTU_4096);
	want_eq(q.max_rd_atomic, 16);
	want_eq(q.max_dest_rd_atomic, 16);
	want_eq(q.min_rnr_timer, 1);
	want_eq(q.timeout, 14);
	want_eq(q.retry_cnt, 7);
	want_eq(q.rnr_retry, 7);
	want_eq(q.port_num, 1);
	want_eq(q.ah_attr.grh.sgid_index, PEER_GID_INDEX);
	want(!memcmp(&q.ah_attr.grh.dgid, &dev.gid, 16));
	want_eq(q.qp_access_flags,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	want(q.cap.max_send_wr >= 64 && q.cap.max_recv_wr >= 64);
	want(init.send_cq == cq && init.recv_cq == cq && !init.srq);
	want_eq(init.qp_type, IBV_QPT_RC);
	want_eq(init.cap.max_send_wr, q.cap.max_send_wr);
	end();
}

static void query_srq_says_what_was_set(int arg)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 20, .max_sge = 3 } };
	struct ibv_srq_attr q;
	struct ibv_srq *srq;

	(void)arg;
	begin();
	srq = ibv_create_srq(dev.pd, &init);
	want(srq);
	want(init.attr.max_wr >= 20 && init.attr.max_sge >= 3);
	q.srq_limit = 5;
	want_eq(ibv_modify_srq(srq, &q, IBV_SRQ_LIMIT), 0);
	want_eq(ibv_query_srq(srq, &q), 0);
	want_eq(q.srq_limit, 5);
	want_eq(q.max_wr, init.attr.max_wr);
	want_eq(q.max_sge, init.attr.max_sge);
	want_eq(ibv_destroy_srq(srq), 0);
	end();
}

static const struct test_case cases[] = {
	CASE(one_event_for_one_arming),
	CASE(no_event_for_an_old_completion),
	CASE(solicited_only),
	CASE(own_send_is_not_solicited),
	CASE(an_error_is_solicited),
	CASE(a_stronger_arming_stays),
	CASE(unsignalled_work_raises_nothing),
	CASE(nonblocking_channel_says_eagain),
	CASE(async_fd_nonblocking_says_eagain),
	{ "epoll_sees_the_channel (level)", epoll_sees_the_channel, 0 },
	{ "epoll_sees_the_channel (edge)", epoll_sees_the_channel, 1 },
	{ "event_comes_without_polling in one process", event_comes_without_polling, 0 },
	{ "event_comes_without_polling between two", event_comes_without_polling, 1 },
	CASE(work_that_lacked_memory_is_done_without_polling),
	CASE(a_blocked_thread_is_woken),
	CASE(a_channel_that_ends_wakes_who_waits),
	CASE(resize_keeps_what_is_in_it),
	CASE(resize_below_its_content_changes_nothing),
	CASE(overrun_tells_cq_and_qp),
	CASE(a_full_cq_is_no_overrun),
	CASE(query_qp_says_what_was_set),
	CASE(query_srq_says_what_was_set),
};

int main(void)
{
	return CASES_RUN(cases);
}
