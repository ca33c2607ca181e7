// SPDX-License-Identifier: MIT
#include "verbs/duo.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	EVERYTHING = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
	PATIENCE = 20000, /* ms until something that must come is given up */
};

static void ok(int err, const char *call)
{
	if (err)
		fail("%s: %s", call, strerror(err > 0 ? err : errno));
}

/* --- one side --- */

static struct ibv_mr *reg(struct ibv_pd *pd, uint8_t *p, size_t n, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, p, n, access);

	if (!mr)
		die("ibv_reg_mr");
	return mr;
}

/* Where the kernel puts nothing by itself: a page that a test unmaps stays unmapped. Only a hint:
 * where the address space is another one, it is taken for none. */
#define FAR_BELOW ((void *)(uintptr_t)0x100000000)

static void side_open(struct side *s, const struct duo_opts *o, bool far)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 16, .max_sge = 4 } };
	struct peer_opts qp = o->qp;

	s->o = o;
	s->bytes = o->bytes;
	s->mem = mmap(FAR_BELOW, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (s->mem == MAP_FAILED)
		die("mmap");
	peer_open(&s->dev);
	s->mr = reg(s->dev.pd, s->mem, s->bytes, o->access);
	if (far && o->far_srq) {
		s->srq = ibv_create_srq(s->dev.pd, &srq);
		if (!s->srq)
			die("ibv_create_srq");
		qp.srq = s->srq;
	}
	peer_ep_create(&s->dev, &qp, &s->ep);
	s->ep.mine.va = (uintptr_t)s->mem;
	s->ep.mine.rkey = s->mr->rkey;
}

static void side_connect(struct side *s, const struct duo_opts *o, bool far)
{
	struct peer_opts qp = o->qp;

	if (far && o->far_access)
		qp.access = o->far_access;
	peer_connect(&s->ep, &qp);
}

static void side_close(struct side *s)
{
	peer_ep_destroy(&s->ep);
	if (s->srq)
		ok(ibv_destroy_srq(s->srq), "ibv_destroy_srq");
	if (s->extra)
		ok(ibv_dereg_mr(s->extra), "ibv_dereg_mr");
	if (s->extra_pd)
		ok(ibv_dealloc_pd(s->extra_pd), "ibv_dealloc_pd");
	if (s->mr)
		ok(ibv_dereg_mr(s->mr), "ibv_dereg_mr");
	peer_close(&s->dev);
	munmap(s->mem, s->bytes);
}

bool side_event(struct side *s, struct ibv_async_event *ev, int ms)
{
	struct pollfd p = { .fd = s->dev.ctx->async_fd, .events = POLLIN };

	if (poll(&p, 1, ms) <= 0)
		return false;
	ok(ibv_get_async_event(s->dev.ctx, ev), "ibv_get_async_event");
	ibv_ack_async_event(ev);
	return true;
}

void side_rearm(struct side *s, uint8_t hop_limit)
{
	struct ibv_qp_attr a = {
		.path_mig_state = IBV_MIG_REARM,
		.alt_ah_attr = { .is_global = 1, .port_num = 1 },
		.alt_port_num = 1,
		.alt_timeout = 10,
	};

	a.alt_ah_attr.grh.dgid = s->ep.theirs.gid;
	a.alt_ah_attr.grh.sgid_index = PEER_GID_INDEX;
	a.alt_ah_attr.grh.hop_limit = hop_limit;
	ok(ibv_modify_qp(s->ep.qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
	   "ibv_modify_qp to REARM");
}

/* --- orders --- */

static void post_receive(struct side *s, const struct duo_order *o)
{
	struct ibv_sge sg = { (uintptr_t)s->mem + o->off, o->len,
			      o->op == DUO_RECV_KEY ? o->key : s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = o->id, .sg_list = &sg, .num_sge = 1 }, *bad;

	ok(s->srq ? ibv_post_srq_recv(s->srq, &wr, &bad) : ibv_post_recv(s->ep.qp, &wr, &bad),
	   "posting a receive");
}

static uint64_t state(struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	ok(ibv_query_qp(s->ep.qp, &a, IBV_QP_STATE, &init), "ibv_query_qp");
	return a.qp_state;
}

static uint64_t register_more(struct side *s, const struct duo_order *o)
{
	struct ibv_pd *pd = s->dev.pd;

	if (o->op == DUO_PD_KEY) {
		pd = s->extra_pd = ibv_alloc_pd(s->dev.ctx);
		if (!pd)
			die("ibv_alloc_pd");
		s->extra = reg(pd, s->mem, s->bytes, EVERYTHING);
	} else {
		s->extra = reg(pd, s->mem + o->off, o->len, (int)o->id);
	}
	return s->extra->rkey;
}

static struct duo_answer obey_memory(struct side *s, const struct duo_order *o)
{
	struct duo_answer a = { .found = true };

	switch (o->op) {
	case DUO_DEREG:
		ok(ibv_dereg_mr(s->mr), "ibv_dereg_mr");
		s->mr = NULL;
		break;
	case DUO_UNMAP:
		peer_unmap(s->mem + o->off, o->len);
		break;
	case DUO_FILL:
		pattern_fill(s->mem, s->bytes, o->id, 0);
		break;
	case DUO_CHECK:
		a.found = pattern_check(s->mem + o->off, o->len, o->id, o->off) == o->len;
		break;
	default:
		a.value = register_more(s, o);
	}
	return a;
}

static void reset_and_connect(struct side *s, const struct duo_opts *o, bool far)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	ok(ibv_modify_qp(s->ep.qp, &reset, IBV_QP_STATE), "ibv_modify_qp to RESET");
	side_connect(s, o, far);
}

static uint64_t fork_idle(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	while (!pid)
		pause();
	return (uint64_t)pid;
}

static struct duo_answer obey_process(struct side *s, const struct duo_order *o)
{
	struct duo_answer a = { .found = true };

	if (o->op == DUO_CONNECT)
		reset_and_connect(s, s->o, true);
	if (o->op == DUO_FORK)
		a.value = fork_idle();
	return a;
}

/* The new program tells by a byte on the socket that it is there. */
static void execute_victim(const struct side *s, int fd)
{
	char addr[32], bytes[32], sock[16];

	snprintf(addr, sizeof(addr), "%p", (void *)s->mem);
	snprintf(bytes, sizeof(bytes), "%zu", s->bytes);
	snprintf(sock, sizeof(sock), "%d", fd);
	fcntl(fd, F_SETFD, 0);
	execl("/proc/self/exe", "victim", "victim", addr, bytes, sock, (char *)NULL);
	die("execl");
}

static struct duo_answer obey_migration(struct side *s, const struct duo_order *o)
{
	struct duo_answer a = { .found = true };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (o->op == DUO_REARM) {
		side_rearm(s, (uint8_t)o->len);
		return a;
	}
	ok(ibv_query_qp(s->ep.qp, &attr, IBV_QP_PATH_MIG_STATE, &init), "ibv_query_qp");
	a.value = attr.path_mig_state;
	a.found = attr.ah_attr.grh.hop_limit == o->len;
	return a;
}

static struct duo_answer obey(struct side *s, const struct duo_order *o)
{
	struct ibv_qp_attr move = { .qp_state = (enum ibv_qp_state)o->id };
	struct ibv_srq_attr limit = { .srq_limit = o->len };
	struct duo_answer a = { .found = true };
	struct ibv_async_event ev;

	switch (o->op) {
	case DUO_RECV:
	case DUO_RECV_KEY:
		post_receive(s, o);
		return a;
	case DUO_POLL:
		a.found = peer_poll(s->ep.rcq, &a.wc, (int)o->len);
		return a;
	case DUO_EVENT:
		a.found = side_event(s, &ev, (int)o->len);
		a.value = a.found ? ev.event_type : 0;
		return a;
	case DUO_STATE:
		a.value = state(s);
		return a;
	case DUO_MODIFY:
		ok(ibv_modify_qp(s->ep.qp, &move, IBV_QP_STATE), "ibv_modify_qp");
		return a;
	case DUO_LIMIT:
		ok(ibv_modify_srq(s->srq, &limit, IBV_SRQ_LIMIT), "ibv_modify_srq");
		return a;
	case DUO_DO:
		return o->fn(s, o);
	case DUO_REARM:
	case DUO_MIG:
		return obey_migration(s, o);
	case DUO_CONNECT:
	case DUO_FORK:
	case DUO_QUIT:
		return obey_process(s, o);
	default:
		return obey_memory(s, o);
	}
}

/* --- two processes --- */

static bool get(int fd, void *p, size_t n)
{
	ssize_t got = recv(fd, p, n, MSG_WAITALL);

	return got == (ssize_t)n;
}

static void go_to(const char *netns)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(netns);
	close(fd);
}

static int far_process(int fd, void *arg)
{
	const struct duo_opts *o = arg;
	struct duo_order order = { .op = DUO_STATE };
	struct side s = { .mem = NULL };

	if (o->far_netns)
		go_to(o->far_netns);
	if (o->far_explain)
		setenv("SOFTHCA_EXPLAIN", o->far_explain, 1);
	side_open(&s, o, true);
	peer_ep_swap(fd, &s.ep);
	side_connect(&s, o, true);
	peer_sync(fd);
	while (order.op != DUO_QUIT && get(fd, &order, sizeof(order))) {
		struct duo_answer a;

		if (order.op == DUO_EXEC)
			execute_victim(&s, fd);
		a = obey(&s, &order);
		if (send(fd, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a))
			break;
	}
	side_close(&s);
	return 0;
}

static void together(struct duo *d)
{
	side_open(&d->far, &d->o, true);
	d->near.ep.theirs = d->far.ep.mine;
	d->far.ep.theirs = d->near.ep.mine;
	side_connect(&d->far, &d->o, true);
	side_connect(&d->near, &d->o, false);
}

void duo_open(struct duo *d, const struct duo_opts *o)
{
	static const struct ibv_qp_cap cap = { 16, 16, 4, 4, 64 };

	*d = (struct duo){ .o = *o, .fd = -1 };
	if (!d->o.qp.cap.max_send_wr)
		d->o.qp.cap = cap;
	if (!d->o.access)
		d->o.access = EVERYTHING;
	if (!d->o.bytes)
		d->o.bytes = 1 << 16;
	if (!o->together)
		d->pid = peer_fork(far_process, &d->o, &d->fd);
	side_open(&d->near, &d->o, false);
	if (o->together) {
		together(d);
		return;
	}
	peer_ep_swap(d->fd, &d->near.ep);
	side_connect(&d->near, &d->o, false);
	peer_sync(d->fd);
}

struct duo_answer duo_tell(struct duo *d, struct duo_order order)
{
	struct duo_answer a;

	if (d->o.together)
		return obey(&d->far, &order);
	if (send(d->fd, &order, sizeof(order), MSG_NOSIGNAL) != sizeof(order) ||
	    !get(d->fd, &a, sizeof(a)))
		fail("the far side has ended before it did order %d", order.op);
	return a;
}

struct duo_answer duo_do(struct duo *d, duo_fn fn, uint32_t off, uint32_t len, uint64_t id)
{
	return duo_tell(
		d, (struct duo_order){ .op = DUO_DO, .fn = fn, .off = off, .len = len, .id = id });
}

void duo_reconnect(struct duo *d)
{
	duo_tell(d, (struct duo_order){ DUO_CONNECT });
	reset_and_connect(&d->near, &d->o, false);
}

void duo_kill(struct duo *d)
{
	kill(d->pid, SIGKILL);
	peer_wait(d->pid);
	d->pid = 0;
}

void duo_close(struct duo *d)
{
	if (d->o.together) {
		side_close(&d->far);
	} else if (d->pid) {
		duo_tell(d, (struct duo_order){ DUO_QUIT });
		if (peer_wait(d->pid))
			fail("the far side failed");
	}
	if (d->fd >= 0)
		close(d->fd);
	side_close(&d->near);
}

/* --- work of the near side --- */

struct ibv_send_wr duo_wr(struct duo *d, enum ibv_wr_opcode op, struct ibv_sge *sg, uint32_t len)
{
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = op,
				  .sg_list = sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	*sg = (struct ibv_sge){ (uintptr_t)d->near.mem, len, d->near.mr->lkey };
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = d->near.ep.theirs.va;
		wr.wr.atomic.rkey = d->near.ep.theirs.rkey;
	} else {
		wr.wr.rdma.remote_addr = d->near.ep.theirs.va;
		wr.wr.rdma.rkey = d->near.ep.theirs.rkey;
	}
	return wr;
}

int duo_post(struct duo *d, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(d->near.ep.qp, wr, &bad);
}

void duo_send(struct duo *d, enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = duo_wr(d, op, &sg, len);

	ok(duo_post(d, &wr), "ibv_post_send");
}

struct ibv_wc duo_wc(struct duo *d)
{
	struct ibv_wc wc;

	if (!peer_poll(d->near.ep.scq, &wc, PATIENCE))
		fail("no completion on the near side");
	return wc;
}

struct ibv_wc duo_far_wc(struct duo *d)
{
	struct duo_answer a = duo_tell(d, (struct duo_order){ DUO_POLL, .len = PATIENCE });

	if (!a.found)
		fail("no completion on the far side");
	return a.wc;
}
