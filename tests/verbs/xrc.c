// SPDX-License-Identifier: MIT
/* XRC: domains of a file and of nothing, target QPs that processes share, messages that reach the
 * SRQ they name wherever in the domain it is, and members that leave or are killed. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/member.h"

static int file(void)
{
	int fd = memfd_create("domain", 0);

	want(fd >= 0);
	return fd;
}

static struct ibv_xrcd *domain(struct peer_dev *d, int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd,
					oflags };

	return ibv_open_xrcd(d->ctx, &a);
}

static struct ibv_qp *target(struct peer_dev *d, struct ibv_xrcd *x)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = x };

	return ibv_create_qp_ex(d->ctx, &a);
}

static struct ibv_qp *reopen(struct peer_dev *d, struct ibv_xrcd *x, uint32_t qpn,
			     enum ibv_qp_type type)
{
	struct ibv_qp_open_attr a = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						   IBV_QP_OPEN_ATTR_TYPE,
				      .qp_num = qpn,
				      .xrcd = x,
				      .qp_type = type };

	return ibv_open_qp(d->ctx, &a);
}

static struct ibv_srq *srq(struct peer_dev *d, struct ibv_xrcd *x, struct ibv_cq *cq, int without)
{
	struct ibv_srq_init_attr_ex a = { .attr = { .max_wr = 4, .max_sge = 1 },
					  .comp_mask =
						  (IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						   IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ) &
						  ~without,
					  .srq_type = IBV_SRQT_XRC,
					  .pd = d->pd,
					  .xrcd = x,
					  .cq = cq };

	return ibv_create_srq_ex(d->ctx, &a);
}

/* --- one process --- */

static void flags_of_open(int arg)
{
	struct ibv_xrcd_init_attr none = { 0 };
	struct peer_dev d;
	struct ibv_xrcd *a, *b;
	int fd = file();

	(void)arg;
	peer_open(&d);
	want_null(ibv_open_xrcd(d.ctx, &none), EINVAL);
	none.comp_mask = IBV_XRCD_INIT_ATTR_FD;
	want_null(ibv_open_xrcd(d.ctx, &none), EINVAL);
	want_null(domain(&d, 1000, O_CREAT), EBADF);
	want_null(domain(&d, fd, 0), EAGAIN);
	a = domain(&d, fd, O_CREAT | O_EXCL);
	want(a);
	want_null(domain(&d, fd, O_CREAT | O_EXCL), EINVAL);
	b = domain(&d, fd, 0);
	want(b);
	want_eq(ibv_close_xrcd(a), 0);
	want_null(domain(&d, fd, O_CREAT | O_EXCL), EINVAL);
	want_eq(ibv_close_xrcd(b), 0);
	want_null(domain(&d, fd, 0), EAGAIN);
	a = domain(&d, -1, O_CREAT);
	b = domain(&d, -1, O_CREAT | O_EXCL);
	want(a && b && a != b);
	want_eq(ibv_close_xrcd(a), 0);
	want_eq(ibv_close_xrcd(b), 0);
	peer_close(&d);
}

static void what_a_domain_holds(int arg)
{
	struct peer_dev d;
	struct ibv_cq *cq;
	struct ibv_xrcd *x, *other;
	struct ibv_srq *s;
	struct ibv_qp *qp;

	(void)arg;
	peer_open(&d);
	cq = ibv_create_cq(d.ctx, 16, NULL, NULL, 0);
	x = domain(&d, -1, O_CREAT);
	other = domain(&d, -1, O_CREAT);
	want(cq && x && other);
	want_null(srq(&d, x, cq, IBV_SRQ_INIT_ATTR_XRCD), EINVAL);
	want_null(srq(&d, x, cq, IBV_SRQ_INIT_ATTR_CQ), EINVAL);
	want_null(srq(&d, x, cq, IBV_SRQ_INIT_ATTR_PD), EINVAL);
	s = srq(&d, x, cq, 0);
	want(s);
	want_errno(ibv_close_xrcd(x), EBUSY);
	want_errno(ibv_destroy_cq(cq), EBUSY);
	want_eq(ibv_destroy_srq(s), 0);
	qp = target(&d, x);
	want(qp);
	want_errno(ibv_close_xrcd(x), EBUSY);
	want_null(reopen(&d, other, qp->qp_num, IBV_QPT_XRC_RECV), EINVAL);
	want_null(reopen(&d, x, qp->qp_num + 1, IBV_QPT_XRC_RECV), EINVAL);
	want_null(reopen(&d, x, qp->qp_num, IBV_QPT_XRC_SEND), EINVAL);
	want_null(reopen(&d, x, qp->qp_num, IBV_QPT_RC), EINVAL);
	want_eq(ibv_destroy_qp(qp), 0);
	want_eq(ibv_close_xrcd(x), 0);
	want_eq(ibv_close_xrcd(other), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	peer_close(&d);
}

static void two_handles_are_one_queue_pair(int arg)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_init_attr init;
	struct peer_dev d;
	struct ibv_xrcd *x;
	struct ibv_qp *one, *two;
	uint32_t number;

	(void)arg;
	peer_open(&d);
	x = domain(&d, -1, O_CREAT);
	one = target(&d, x);
	want(one);
	number = one->qp_num;
	two = reopen(&d, x, number, IBV_QPT_XRC_RECV);
	want(two && two != one);
	want_eq(two->qp_num, number);
	want_eq(ibv_modify_qp(two, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	want_eq(ibv_query_qp(one, &a, IBV_QP_STATE, &init), 0);
	want_eq(a.qp_state, IBV_QPS_INIT);
	want_eq(one->state, IBV_QPS_INIT);
	want_eq(ibv_destroy_qp(one), 0);
	want_eq(ibv_query_qp(two, &a, IBV_QP_STATE, &init), 0);
	want_eq(a.qp_state, IBV_QPS_INIT);
	want_eq(ibv_destroy_qp(two), 0);
	want_null(reopen(&d, x, number, IBV_QPT_XRC_RECV), EINVAL);
	want_eq(ibv_close_xrcd(x), 0);
	peer_close(&d);
}

static void queues_of_the_wrong_kind(int arg)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp_init_attr rc = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_recv_wr rwr = { 0 }, *rbad;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct peer_dev d;
	struct ibv_cq *cq;
	struct ibv_xrcd *x;
	struct ibv_qp *qp;

	(void)arg;
	peer_open(&d);
	cq = ibv_create_cq(d.ctx, 16, NULL, NULL, 0);
	x = domain(&d, -1, O_CREAT);
	want_null(ibv_create_qp_ex(d.ctx, &a), EINVAL);
	rc.send_cq = rc.recv_cq = cq;
	rc.srq = srq(&d, x, cq, 0);
	want(rc.srq);
	want_null(ibv_create_qp(d.pd, &rc), EINVAL);
	rc.qp_type = IBV_QPT_XRC_SEND;
	want_null(ibv_create_qp(d.pd, &rc), EINVAL);
	want_eq(ibv_destroy_srq(rc.srq), 0);
	rc.srq = NULL;
	rc.send_cq = NULL;
	want_null(ibv_create_qp(d.pd, &rc), EINVAL);
	rc.send_cq = cq;
	rc.recv_cq = NULL;
	qp = ibv_create_qp(d.pd, &rc);
	want(qp);
	want_eq(rc.cap.max_recv_wr, 0);
	want_eq(ibv_destroy_qp(qp), 0);
	rc.recv_cq = ibv_create_cq(d.ctx, 16, NULL, NULL, 0);
	qp = ibv_create_qp(d.pd, &rc);
	want(rc.recv_cq && qp);
	want_eq(ibv_destroy_cq(rc.recv_cq), 0); /* it is named only */
	want_eq(ibv_destroy_qp(qp), 0);
	qp = target(&d, x);
	want_eq(ibv_post_send(qp, &wr, &bad), EINVAL);
	want_eq(ibv_post_recv(qp, &rwr, &rbad), EINVAL);
	want_eq(ibv_destroy_qp(qp), 0);
	want_eq(ibv_close_xrcd(x), 0);
	want_eq(ibv_destroy_cq(cq), 0);
	peer_close(&d);
}

/* Such a child, of a program that forks its workers, has the domain's sockets at first. */
static void opened_again_though_a_child_lives(int arg)
{
	struct peer_dev d;
	struct ibv_xrcd *x;
	int fd = file(), go[2];
	char c;
	pid_t pid;

	(void)arg;
	want_eq(pipe(go), 0);
	peer_open(&d);
	x = domain(&d, fd, O_CREAT);
	want(x);
	pid = fork();
	want(pid >= 0);
	if (!pid) {
		close(go[1]);
		_exit(read(go[0], &c, 1) != 0);
	}
	want_eq(ibv_close_xrcd(x), 0);
	want_null(domain(&d, fd, 0), EAGAIN);
	x = domain(&d, fd, O_CREAT);
	want(x);
	want_eq(ibv_close_xrcd(x), 0);
	close(go[1]);
	want_eq(peer_wait(pid), 0);
	peer_close(&d);
	close(fd);
}

/* --- several processes --- */

/* A makes the target QP, B holds it and sends, C and D receive. */
struct cast {
	int file;
	struct member a, b, c, d;
	uint32_t qpn, sender; /* numbers of the target and of B's XRC_SEND QP */
	struct member_answer srq; /* C's */
	uint32_t stream;
};

static void join(struct cast *k, struct member *m)
{
	member_start(m, k->file);
	want_eq(MEMBER_DO(m, MEMBER_OPEN, O_CREAT).err, 0);
}

static void connect_all(struct cast *k, struct member *by)
{
	MEMBER_DO(by, MEMBER_JOIN, k->sender);
	MEMBER_DO(&k->b, MEMBER_REACH, k->qpn, 2);
}

static void begin(struct cast *k)
{
	*k = (struct cast){ .file = file() };
	join(k, &k->a);
	join(k, &k->b);
	join(k, &k->c);
	k->qpn = MEMBER_DO(&k->a, MEMBER_TARGET).value;
	want_eq(MEMBER_DO(&k->b, MEMBER_TAKE, k->qpn, IBV_QPT_XRC_RECV).err, 0);
	k->srq = MEMBER_DO(&k->c, MEMBER_SRQ);
	k->sender = MEMBER_DO(&k->b, MEMBER_SENDER).value;
	connect_all(k, &k->a);
}

static void end(struct cast *k)
{
	member_kill(&k->a);
	member_kill(&k->b);
	member_kill(&k->c);
	close(k->file);
}

/* @n messages of a new stream from B to C, all of them. */
static void all_arrive(struct cast *k, uint32_t n)
{
	struct member_answer a = MEMBER_DO(&k->b, MEMBER_STREAM, k->srq.value, k->stream, n);

	want_eq(a.status, IBV_WC_SUCCESS);
	want_eq(a.value, n);
	want_eq(MEMBER_DO(&k->c, MEMBER_COUNT, 0, k->stream, n).value, n);
	k->stream++;
}

static void other_processes(int arg)
{
	struct member other;
	struct cast k;

	(void)arg;
	begin(&k);
	member_start(&other, k.file);
	want_eq(MEMBER_DO(&other, MEMBER_OPEN, O_CREAT | O_EXCL).err, EINVAL);
	want_eq(MEMBER_DO(&other, MEMBER_OPEN, 0).err, 0);
	want_eq(MEMBER_DO(&other, MEMBER_TAKE, k.qpn + 1, IBV_QPT_XRC_RECV).err, EINVAL);
	want_eq(MEMBER_DO(&other, MEMBER_TAKE, k.qpn, IBV_QPT_XRC_SEND).err, EINVAL);
	want_eq(MEMBER_DO(&other, MEMBER_TAKE, k.qpn, IBV_QPT_XRC_RECV).err, 0);
	want_eq(MEMBER_DO(&other, MEMBER_STATE).value, IBV_QPS_RTS);
	all_arrive(&k, 100);
	/* the last handle destroys it, the others close theirs */
	want_eq(MEMBER_DO(&k.a, MEMBER_CLOSE).err, 0);
	want_eq(MEMBER_DO(&other, MEMBER_CLOSE).err, 0);
	all_arrive(&k, 100);
	want_eq(MEMBER_DO(&other, MEMBER_TAKE, k.qpn, IBV_QPT_XRC_RECV).err, 0);
	want_eq(MEMBER_DO(&k.b, MEMBER_CLOSE).err, 0);
	want_eq(MEMBER_DO(&other, MEMBER_CLOSE).err, 0);
	want_eq(MEMBER_DO(&other, MEMBER_TAKE, k.qpn, IBV_QPT_XRC_RECV).err, EINVAL);
	member_kill(&other);
	end(&k);
}

enum { QPS = 4000, ROUNDS = 20 };

struct closer {
	struct ibv_xrcd *x;
	pthread_barrier_t both;
};

static void *close_domain(void *arg)
{
	struct closer *c = arg;

	pthread_barrier_wait(&c->both);
	want_eq(ibv_close_xrcd(c->x), 0);
	return NULL;
}

/* The process keeps its halves of the QPs until the domain's end, which so takes its time. */
static void make_halves(struct peer_dev *d, struct ibv_xrcd *x)
{
	struct ibv_qp *qp[QPS];

	for (int i = 0; i < QPS; i++) {
		qp[i] = target(d, x);
		want(qp[i]);
	}
	for (int i = 0; i < QPS; i++)
		want_eq(ibv_destroy_qp(qp[i]), 0);
}

/* A domain that is opened while another thread closes it for the last time is a whole one: its
 * handle counts, so that the other process does not destroy the QP. */
static void closed_by_another_thread(int arg)
{
	struct peer_dev d;
	int fd = file();
	struct member m;

	(void)arg;
	member_start(&m, fd);
	want_eq(MEMBER_DO(&m, MEMBER_OPEN, O_CREAT).err, 0);
	peer_open(&d);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t number = MEMBER_DO(&m, MEMBER_TARGET).value;
		struct closer c = { .x = domain(&d, fd, 0) };
		struct ibv_xrcd *x;
		pthread_t thread;
		struct ibv_qp *qp;

		want(c.x);
		make_halves(&d, c.x);
		pthread_barrier_init(&c.both, NULL, 2);
		want_eq(pthread_create(&thread, NULL, close_domain, &c), 0);
		pthread_barrier_wait(&c.both);
		x = domain(&d, fd, 0);
		want(x);
		want_eq(pthread_join(thread, NULL), 0);
		pthread_barrier_destroy(&c.both);
		qp = reopen(&d, x, number, IBV_QPT_XRC_RECV);
		want(qp);
		want_eq(MEMBER_DO(&m, MEMBER_CLOSE).err, 0);
		want_eq(MEMBER_DO(&m, MEMBER_TAKE, number, IBV_QPT_XRC_RECV).err, 0);
		want_eq(MEMBER_DO(&m, MEMBER_CLOSE).err, 0);
		want_eq(ibv_destroy_qp(qp), 0);
		want_eq(ibv_close_xrcd(x), 0);
	}
	member_kill(&m);
	peer_close(&d);
	close(fd);
}

/* Every kind of request finds the memory of the SRQ's process, by the key of the SRQ's PD. */
static void every_operation(int arg)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,	      IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_RDMA_READ,
	};
	static const uint64_t word[] = { 5, 5, 5, 10, 10, 10 };
	struct member_answer a;
	struct cast k;

	(void)arg;
	begin(&k);
	for (unsigned int i = 0; i < 6; i++) {
		a = MEMBER_DO(&k.b, MEMBER_OP, k.srq.value, ops[i], 5, k.srq.key, k.srq.va);
		want_eq(a.status, IBV_WC_SUCCESS);
		want_eq(a.word, word[i]);
	}
	all_arrive(&k, 10);
	a = MEMBER_DO(&k.b, MEMBER_OP, k.srq.value, IBV_WR_RDMA_WRITE, 5, k.srq.key + 1, k.srq.va);
	want_eq(a.status, IBV_WC_REM_ACCESS_ERR);
	want_eq(MEMBER_DO(&k.a, MEMBER_STATE).value, IBV_QPS_ERR);
	connect_all(&k, &k.b);
	a = MEMBER_DO(&k.b, MEMBER_OP, k.srq.value + 1, IBV_WR_SEND, 5);
	want_eq(a.status, IBV_WC_REM_INV_REQ_ERR);
	want_eq(MEMBER_DO(&k.a, MEMBER_STATE).value, IBV_QPS_ERR);
	connect_all(&k, &k.a);
	all_arrive(&k, 10);
	a = MEMBER_DO(&k.b, MEMBER_OP, MEMBER_DO(&k.c, MEMBER_STRANGER).value, IBV_WR_SEND, 5);
	want_eq(a.status, IBV_WC_REM_INV_REQ_ERR);
	end(&k);
}

static void two_receivers_in_turn(int arg)
{
	struct member_answer s, a;
	struct cast k;

	(void)arg;
	begin(&k);
	join(&k, &k.d);
	s = MEMBER_DO(&k.d, MEMBER_SRQ);
	for (uint32_t i = 1; i < 40; i++) {
		a = MEMBER_DO(&k.b, MEMBER_STREAM, s.value, i, i);
		want_eq(a.status, IBV_WC_SUCCESS);
		k.stream = i;
		all_arrive(&k, i);
		want_eq(MEMBER_DO(&k.d, MEMBER_COUNT, 0, i, i).value, i);
	}
	/* by threes, without waiting in between, and nothing comes out of order */
	MEMBER_DO(&k.a, MEMBER_JOIN, k.sender);
	MEMBER_DO(&k.b, MEMBER_REACH, k.qpn, 0);
	a = MEMBER_DO(&k.b, MEMBER_ALTERNATE, k.srq.value, 50, 600, s.value);
	want_eq(a.status, IBV_WC_SUCCESS);
	want_eq(a.value, 600);
	want_eq(MEMBER_DO(&k.c, MEMBER_COUNT, 0, 50, 300).value, 300);
	want_eq(MEMBER_DO(&k.d, MEMBER_COUNT, 0, 51, 300).value, 300);
	member_kill(&k.d);
	end(&k);
}

static void the_maker_leaves(int arg)
{
	struct member_order leave = { MEMBER_LEAVE };
	struct cast k;

	(void)arg;
	begin(&k);
	all_arrive(&k, 10);
	member_tell(&k.a, &leave);
	peer_wait(k.a.pid);
	close(k.a.fd);
	all_arrive(&k, 100);
	connect_all(&k, &k.b);
	all_arrive(&k, 100);
	/* nobody alive holds it for a while, and the domain keeps it */
	member_kill(&k.b);
	join(&k, &k.b);
	want_eq(MEMBER_DO(&k.b, MEMBER_TAKE, k.qpn, IBV_QPT_XRC_RECV).err, 0);
	want_eq(MEMBER_DO(&k.b, MEMBER_STATE).value, IBV_QPS_RTS);
	k.sender = MEMBER_DO(&k.b, MEMBER_SENDER).value;
	connect_all(&k, &k.b);
	all_arrive(&k, 100);
	join(&k, &k.a);
	end(&k);
}

/* --- kill -9 --- */

static void some_time(unsigned int *seed)
{
	for (unsigned int n = (unsigned int)rand_r(seed) % 64; n; n--)
		sched_yield();
}

/* The maker works on nothing: nobody notices. */
static void kill_maker(struct cast *k, unsigned int *seed)
{
	struct member_order o = { MEMBER_STREAM, k->srq.value, k->stream, 200 };
	struct member_answer a;

	member_tell(&k->b, &o);
	some_time(seed);
	member_kill(&k->a);
	a = member_hear(&k->b);
	want_eq(a.status, IBV_WC_SUCCESS);
	want_eq(MEMBER_DO(&k->c, MEMBER_COUNT, 0, k->stream, 200).value, 200);
	k->stream++;
	join(k, &k->a);
	want_eq(MEMBER_DO(&k->a, MEMBER_TAKE, k->qpn, IBV_QPT_XRC_RECV).err, 0);
}

/* The receiver: what is sent to it ends in an error, and the target QP can be used for another. */
static void kill_receiver(struct cast *k, unsigned int *seed)
{
	struct member_order o = { MEMBER_STREAM, k->srq.value, k->stream, UINT32_MAX };
	struct member_answer a;
	uint32_t state;

	member_tell(&k->b, &o);
	some_time(seed);
	member_kill(&k->c);
	a = member_hear(&k->b);
	want_eq(a.status, IBV_WC_RETRY_EXC_ERR);
	state = MEMBER_DO(&k->a, MEMBER_STATE).value;
	want(state == IBV_QPS_RTS || state == IBV_QPS_ERR);
	join(k, &k->c);
	k->srq = MEMBER_DO(&k->c, MEMBER_SRQ);
	connect_all(k, &k->a);
}

/* The sender, who is a holder too. */
static void kill_sender(struct cast *k, unsigned int *seed)
{
	struct member_order o = { MEMBER_STREAM, k->srq.value, k->stream++, UINT32_MAX };

	member_tell(&k->b, &o);
	some_time(seed);
	member_kill(&k->b);
	join(k, &k->b);
	want_eq(MEMBER_DO(&k->b, MEMBER_TAKE, k->qpn, IBV_QPT_XRC_RECV).err, 0);
	k->sender = MEMBER_DO(&k->b, MEMBER_SENDER).value;
	connect_all(k, &k->b);
}

static void killed_in_turn(int arg)
{
	static void (*const victims[])(struct cast *, unsigned int *) = { kill_maker, kill_receiver,
									  kill_sender };
	unsigned int rounds = 3 * (cases_full() ? 200 : 4), seed = 1; /* each of three */
	struct cast k;

	(void)arg;
	begin(&k);
	for (unsigned int i = 0; i < rounds; i++) {
		peer_note("round %u", i);
		k.stream %= 60;
		victims[i % 3](&k, &seed);
		all_arrive(&k, 20);
		if (k.stream >= 50) { /* numbers of streams begin anew with a new receiver */
			k.stream = 0;
			member_kill(&k.c);
			join(&k, &k.c);
			k.srq = MEMBER_DO(&k.c, MEMBER_SRQ);
			connect_all(&k, &k.a);
		}
	}
	end(&k);
}

int main(void)
{
	static const struct test_case list[] = {
		CASE(flags_of_open),
		CASE(what_a_domain_holds),
		CASE(two_handles_are_one_queue_pair),
		CASE(queues_of_the_wrong_kind),
		CASE(opened_again_though_a_child_lives),
		CASE(other_processes),
		CASE(closed_by_another_thread),
		CASE(every_operation),
		CASE(two_receivers_in_turn),
		CASE(the_maker_leaves),
		CASE(killed_in_turn),
	};

	return CASES_RUN(list);
}
