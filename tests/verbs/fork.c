// SPDX-License-Identifier: MIT
/* fork and exec: what a child may do with what it inherits, and that the parent notices nothing. In
 * every case the parent has traffic with a third process all the time. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

static struct duo duo; /* the parent's connection to the third process */
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_comp_channel *channel;
static struct ibv_srq *srq;

static void begin(void)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC };
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };

	said_begin();
	duo_open(&duo, &o);
	ctx = duo.near.dev.ctx;
	pd = duo.near.dev.pd;
	qp = duo.near.ep.qp;
	cq = duo.near.ep.scq;
	srq = ibv_create_srq(pd, &sa);
	channel = ibv_create_comp_channel(ctx);
	want(srq && channel);
	duo_tell(&duo, (struct duo_order){ DUO_FILL, .id = 1 });
}

static void traffic(void)
{
	for (int i = 0; i < 20; i++) {
		if (i & 1)
			duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64 });
		duo_send(&duo, i & 1 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 64);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
		if (i & 1)
			want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
	}
}

static void end(void)
{
	traffic();
	want_eq(ibv_destroy_srq(srq), 0);
	want_eq(ibv_destroy_comp_channel(channel), 0);
	duo_close(&duo);
}

static bool ended(pid_t pid)
{
	siginfo_t si = { .si_pid = 0 };

	want_eq(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT), 0);
	return si.si_pid == pid;
}

/* Runs it in a child; meanwhile the parent's traffic goes on. */
static void in_child(void (*fn)(void))
{
	pid_t pid;

	begin();
	for (int i = 0; i < 2; i++)
		traffic();
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		fn();
		_exit(0);
	}
	do
		traffic();
	while (!ended(pid));
	want_eq(peer_wait(pid), 0);
	end();
}

/* --- in the child --- */

static void queries(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_srq_attr srq_attr;
	struct ibv_qp_attr attr;
	union ibv_gid gid;
	__be16 pkey;

	want_eq(ibv_query_device(ctx, &device), 0);
	want(device.max_qp > 0);
	want_eq(ibv_query_port(ctx, 1, &port), 0);
	want_eq(port.state, IBV_PORT_ACTIVE);
	want_eq(ibv_query_gid(ctx, 1, PEER_GID_INDEX, &gid), 0);
	want(!memcmp(&gid, &duo.near.dev.gid, sizeof(gid)));
	want_eq(ibv_query_pkey(ctx, 1, 0, &pkey), 0);
	want_eq(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	want_eq(attr.qp_state, IBV_QPS_RTS);
	want_eq(attr.dest_qp_num, duo.near.ep.theirs.qpn);
	want_eq(ibv_query_srq(srq, &srq_attr), 0);
}

static void ping_pong(struct peer_dev *d)
{
	static uint8_t mem[4096];
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_mr *mr = ibv_reg_mr(d->pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge from = { (uintptr_t)mem, 64, 0 }, to = { (uintptr_t)mem + 2048, 64, 0 };
	struct ibv_send_wr wr = { .sg_list = &from,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct peer_ep a, b;
	struct ibv_wc wc;

	want(mr);
	from.lkey = to.lkey = mr->lkey;
	peer_pair(d, &o, &a, &b);
	for (uint64_t i = 0; i < 50; i++) {
		pattern_fill(mem, 64, i, 0);
		peer_recv(&b, i, &to, 1);
		want_eq(ibv_post_send(a.qp, &wr, &bad), 0);
		peer_poll_ok(a.scq, &wc);
		peer_poll_ok(b.rcq, &wc);
		want_eq(pattern_check(mem + 2048, 64, i, 0), 64);
	}
	peer_ep_destroy(&a);
	peer_ep_destroy(&b);
	want_eq(ibv_dereg_mr(mr), 0);
}

/* New objects of each kind on the inherited context, and work on them. */
static void new_objects(void)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct peer_dev d = { .ctx = ctx, .pd = ibv_alloc_pd(ctx), .gid = duo.near.dev.gid };
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	struct ibv_cq *own = ibv_create_cq(ctx, 16, NULL, ch, 0);
	struct ibv_srq *s;
	struct ibv_ah *ah;

	want(d.pd && ch && own);
	s = ibv_create_srq(d.pd, &sa);
	want(s);
	ah = peer_ah(&d, &duo.near.ep.theirs);
	ping_pong(&d);
	want_eq(ibv_destroy_ah(ah), 0);
	want_eq(ibv_destroy_srq(s), 0);
	want_eq(ibv_destroy_cq(own), 0);
	want_eq(ibv_destroy_comp_channel(ch), 0);
	want_eq(ibv_dealloc_pd(d.pd), 0);
}

static void open_again(void)
{
	struct peer_dev d;

	peer_open(&d);
	ping_pong(&d);
	peer_close(&d);
}

static void inherited_queues(void)
{
	struct ibv_sge sg = { (uintptr_t)duo.near.mem, 8, duo.near.mr->lkey };
	struct ibv_recv_wr rwr = { .sg_list = &sg, .num_sge = 1 }, *rbad = NULL;
	struct ibv_qp_attr to_err = { .qp_state = IBV_QPS_ERR };
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_sge ssg;
	struct ibv_send_wr wr = duo_wr(&duo, IBV_WR_RDMA_WRITE, &ssg, 64), *bad = NULL;
	struct ibv_wc wc;

	want_eq(ibv_post_send(qp, &wr, &bad), EIO);
	want(bad == &wr);
	said_want(SAID_NEAR, "ibv_post_send: QP 0x%x was made before fork(); make a new one",
		  qp->qp_num);
	want_eq(ibv_post_recv(qp, &rwr, &rbad), EIO);
	want(rbad == &rwr);
	said_want(SAID_NEAR, "ibv_post_recv: QP 0x%x was made before fork(); make a new one",
		  qp->qp_num);
	want_eq(ibv_post_srq_recv(srq, &rwr, &rbad), EIO);
	said_want(SAID_NEAR, "ibv_post_srq_recv: SRQ 0x%x was made before fork(); make a new one",
		  srq->handle);
	want_errno(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), EIO);
	said_want(SAID_NEAR, "ibv_modify_srq: SRQ 0x%x was made before fork(); make a new one",
		  srq->handle);
	want_errno(ibv_modify_qp(qp, &to_err, IBV_QP_STATE), EIO);
	said_want(SAID_NEAR, "ibv_modify_qp: QP 0x%x was made before fork(); make a new one",
		  qp->qp_num);
	want(ibv_poll_cq(cq, 1, &wc) < 0);
	said_want(SAID_NEAR, "ibv_poll_cq: CQ 0x%x was made before fork(); make a new one",
		  cq->handle);
	want_eq(ibv_req_notify_cq(cq, 0), EIO);
	said_want(SAID_NEAR, "ibv_req_notify_cq: CQ 0x%x was made before fork(); make a new one",
		  cq->handle);
	want_errno(ibv_resize_cq(cq, 500), EIO);
	said_want(SAID_NEAR, "ibv_resize_cq: CQ 0x%x was made before fork(); make a new one",
		  cq->handle);
}

static void destroy_inherited(void)
{
	want_eq(ibv_destroy_qp(qp), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	want_eq(ibv_destroy_srq(srq), 0);
	want_eq(ibv_destroy_comp_channel(channel), 0);
	want_eq(ibv_dereg_mr(duo.near.mr), 0);
	want_eq(ibv_dealloc_pd(pd), 0);
	want_eq(ibv_close_device(ctx), 0);
}

static void destroy_then_open(void)
{
	destroy_inherited();
	open_again();
}

static void everything(void)
{
	queries();
	inherited_queues();
	new_objects();
	open_again();
	destroy_inherited();
}

/* A grandchild is a child too. */
static void in_grandchild(void)
{
	pid_t pid;

	new_objects();
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		everything();
		_exit(0);
	}
	open_again();
	want_eq(peer_wait(pid), 0);
}

/* --- the cases --- */

static void queries_work(int arg)
{
	(void)arg;
	in_child(queries);
}

static void new_objects_work(int arg)
{
	(void)arg;
	in_child(new_objects);
}

static void a_new_context_works(int arg)
{
	(void)arg;
	in_child(open_again);
}

static void inherited_queues_answer_eio(int arg)
{
	(void)arg;
	in_child(inherited_queues);
}

static void destroying_frees_the_childs_copy(int arg)
{
	(void)arg;
	in_child(destroy_inherited);
}

static void destroying_then_opening_works(int arg)
{
	(void)arg;
	in_child(destroy_then_open);
}

static void all_of_it_in_one_child(int arg)
{
	(void)arg;
	in_child(everything);
}

static void grandchildren_too(int arg)
{
	(void)arg;
	in_child(in_grandchild);
}

/* Events of the context in the child are the child's; the parent's descriptor stays the
 * parent's. */
static void async_fd_is_not_shared(void)
{
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	new_objects(); /* from here on the context is the child's */
	while (poll(&p, 1, 0) == 1) { /* that its connections are up */
		want_eq(ibv_get_async_event(ctx, &ev), 0);
		ibv_ack_async_event(&ev);
	}
}

static void async_events_are_the_childs_own(int arg)
{
	(void)arg;
	in_child(async_fd_is_not_shared);
}

/* The parent is killed; its child, which never execs, goes on as if nothing were. */
static void a_child_outlives_its_parent(int arg)
{
	int done[2];
	char c = 0;
	pid_t pid;

	(void)arg;
	want_eq(pipe(done), 0);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		int go[2];

		begin();
		traffic();
		want_eq(pipe(go), 0);
		pid = fork();
		if (pid < 0)
			die("fork");
		if (!pid) {
			close(go[1]);
			want_eq(read(go[0], &c, 1), 0); /* the parent is gone */
			everything();
			want_eq(write(done[1], "k", 1), 1);
			_exit(0);
		}
		raise(SIGKILL);
	}
	close(done[1]);
	want_eq(peer_wait(pid), 128 + SIGKILL);
	want_eq(read(done[0], &c, 1), 1);
	want_eq(c, 'k');
}

/* A killed parent is dead for its peers, however many children it leaves. */
static void a_parent_is_dead_though_its_child_lives(int arg)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .timeout = 10, .retry = 1 } };
	pid_t child;

	(void)arg;
	duo_open(&duo, &o);
	duo_send(&duo, IBV_WR_RDMA_WRITE, 64);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	child = (pid_t)duo_tell(&duo, (struct duo_order){ DUO_FORK }).value;
	duo_kill(&duo);
	duo_send(&duo, IBV_WR_RDMA_WRITE, 64);
	want_eq(duo_wc(&duo).status, IBV_WC_RETRY_EXC_ERR);
	want_eq(kill(child, SIGKILL), 0); /* it was there until now */
	duo_close(&duo);
}

/* A child that gives up its rights has no descriptor of its parent's memory, or of its peers'. */
static void looks_for_memory(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;

	want(dir != NULL);
	while ((e = readdir(dir))) {
		char path[300], to[200] = "";
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		want(n < 4 || strcmp(to + n - 4, "/mem") != 0);
	}
	closedir(dir);
}

static void a_child_has_no_descriptor_of_memory(int arg)
{
	(void)arg;
	in_child(looks_for_memory);
}

/* A connection that was accepted shows the name as well, and does not keep it. */
static bool has_our_name(int fd)
{
	struct sockaddr_un sa = { 0 }, peer;
	socklen_t len = sizeof(sa), peer_len = sizeof(peer);

	return !getsockname(fd, (struct sockaddr *)&sa, &len) && sa.sun_family == AF_UNIX &&
	       !strncmp(sa.sun_path + 1, "softhca.", 8) &&
	       getpeername(fd, (struct sockaddr *)&peer, &peer_len);
}

/* Names of its slot, and of an XRC domain: the child would keep them when the parent has ended. */
static void looks_for_names(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;

	want(dir != NULL);
	while ((e = readdir(dir)))
		want(!has_our_name(atoi(e->d_name)));
	closedir(dir);
}

static void a_child_has_no_name_of_its_parent(int arg)
{
	struct ibv_xrcd_init_attr xa = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					 memfd_create("domain", MFD_CLOEXEC), O_CREAT };
	struct ibv_xrcd *x;
	pid_t pid;

	(void)arg;
	begin();
	x = ibv_open_xrcd(ctx, &xa);
	want(x);
	fflush(NULL);
	pid = fork();
	want(pid >= 0);
	if (!pid) {
		looks_for_names();
		_exit(0);
	}
	want_eq(peer_wait(pid), 0);
	want_eq(ibv_close_xrcd(x), 0);
	close(xa.fd);
	end();
}

/* --- a parent with threads at work --- */

enum { FORKS = 60, MAKERS = 3, CHILD_S = 20 };
enum { SRQS, XRC_DOMAINS, NULL_MRS };

static bool made_enough; /* atomic */

static void make_srq(struct ibv_pd *in)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *s = ibv_create_srq(in, &sa);

	want(s);
	want_eq(ibv_destroy_srq(s), 0);
}

static void make_xrcd(struct ibv_pd *in)
{
	struct ibv_xrcd_init_attr xa = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1,
					 O_CREAT };
	struct ibv_xrcd *x = ibv_open_xrcd(in->context, &xa);

	want(x);
	want_eq(ibv_close_xrcd(x), 0);
}

static void make_null_mr(struct ibv_pd *in)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(in);

	want(mr);
	want_eq(ibv_dereg_mr(mr), 0);
}

static void (*const make[])(struct ibv_pd *in) = {
	[SRQS] = make_srq, [XRC_DOMAINS] = make_xrcd, [NULL_MRS] = make_null_mr
};

static void *make_many(void *arg)
{
	while (!__atomic_load_n(&made_enough, __ATOMIC_RELAXED))
		make[*(int *)arg](pd);
	return NULL;
}

/* A child that waits for a thread that it does not have is ended by the alarm. */
static void make_one(int kind)
{
	struct ibv_pd *own;

	alarm(CHILD_S);
	own = ibv_alloc_pd(ctx);
	want(own);
	make[kind](own);
	want_eq(ibv_dealloc_pd(own), 0);
}

static void forks_while_threads_make_objects(int kind)
{
	pthread_t maker[MAKERS];

	if (cases_sanitized())
		case_skip("a child waits for the sanitizer's allocator");
	begin();
	made_enough = false;
	for (int i = 0; i < MAKERS; i++)
		want_eq(pthread_create(&maker[i], NULL, make_many, &kind), 0);
	fflush(NULL);
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (!pid) {
			make_one(kind);
			_exit(0);
		}
		want_eq(peer_wait(pid), 0);
	}
	__atomic_store_n(&made_enough, true, __ATOMIC_RELAXED);
	for (int i = 0; i < MAKERS; i++)
		want_eq(pthread_join(maker[i], NULL), 0);
	end();
}

/* --- exec --- */

/* What this very program does when it is executed anew: names every descriptor above stderr. */
static int list_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int found = 0;

	while (dir && (e = readdir(dir))) {
		char path[300], to[200] = "";
		int fd = atoi(e->d_name);

		if (fd <= 2 || fd == dirfd(dir))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, to, sizeof(to) - 1) > 0)
			fprintf(stderr, "descriptor %d survived exec: %s\n", fd, to);
		found++;
	}
	return !dir || found;
}

static void exec_self(void)
{
	execl("/proc/self/exe", "verbs_fork", "descriptors", (char *)NULL);
	die("execl");
}

static void exec_closes_everything(int arg)
{
	(void)arg;
	syscall(SYS_close_range, 3, ~0U, 0);
	in_child(exec_self);
}

static void new_objects_then_exec(void)
{
	new_objects();
	exec_self();
}

static void exec_closes_what_the_child_made(int arg)
{
	(void)arg;
	syscall(SYS_close_range, 3, ~0U, 0);
	in_child(new_objects_then_exec);
}

static const struct test_case cases[] = {
	CASE(queries_work),
	CASE(new_objects_work),
	CASE(a_new_context_works),
	CASE(inherited_queues_answer_eio),
	CASE(destroying_frees_the_childs_copy),
	CASE(destroying_then_opening_works),
	CASE(all_of_it_in_one_child),
	CASE(grandchildren_too),
	CASE(async_events_are_the_childs_own),
	CASE(a_child_outlives_its_parent),
	CASE(a_parent_is_dead_though_its_child_lives),
	CASE(a_child_has_no_descriptor_of_memory),
	CASE(a_child_has_no_name_of_its_parent),
	CASE_ARG(forks_while_threads_make_objects, SRQS),
	CASE_ARG(forks_while_threads_make_objects, XRC_DOMAINS),
	CASE_ARG(forks_while_threads_make_objects, NULL_MRS),
	CASE(exec_closes_everything),
	CASE(exec_closes_what_the_child_made),
};

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "descriptors"))
		return list_descriptors();
	return CASES_RUN(cases);
}
