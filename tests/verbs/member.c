// SPDX-License-Identifier: MIT
#include "verbs/member.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECEIVES = 64, BYTES = 64, WINDOW = 8, AREA = 8192, STREAMS = 64, PSN = 0x123 };

struct self {
	int file, fd;
	struct peer_dev dev;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_cq *rcq, *scq;
	struct ibv_mr *mr;
	struct ibv_qp *target, *sender;
	uint8_t *area; /* receives, then what is sent */
	uint32_t came[STREAMS];
};

static void check(int bad, const char *call)
{
	if (bad)
		die(call);
}

static void open_all(struct self *s)
{
	peer_open(&s->dev);
	s->area = aligned_alloc(4096, AREA);
	s->rcq = ibv_create_cq(s->dev.ctx, 4 * RECEIVES, NULL, NULL, 0);
	s->scq = ibv_create_cq(s->dev.ctx, 4 * WINDOW, NULL, NULL, 0);
	check(!s->area || !s->rcq || !s->scq, "ibv_create_cq");
	memset(s->area, 0, AREA);
	s->mr = ibv_reg_mr(s->dev.pd, s->area, AREA,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	check(!s->mr, "ibv_reg_mr");
}

static struct member_answer open_domain(struct self *s, int oflags)
{
	struct ibv_xrcd_init_attr attr = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   s->file, oflags };

	s->xrcd = ibv_open_xrcd(s->dev.ctx, &attr);
	return (struct member_answer){ .err = s->xrcd ? 0 : errno };
}

static struct member_answer stranger(struct self *s)
{
	struct ibv_xrcd_init_attr none = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1,
					   O_CREAT };
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 1, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = s->dev.pd,
		.xrcd = ibv_open_xrcd(s->dev.ctx, &none),
		.cq = s->rcq,
	};
	struct ibv_srq *srq = attr.xrcd ? ibv_create_srq_ex(s->dev.ctx, &attr) : NULL;
	struct member_answer a = { 0 };

	check(!srq, "ibv_create_srq_ex");
	check(ibv_get_srq_num(srq, &a.value), "ibv_get_srq_num");
	return a;
}

static void post_receive(struct self *s, uint64_t i)
{
	struct ibv_sge sg = { (uintptr_t)s->area + i * BYTES, BYTES, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sg, .num_sge = 1 }, *bad;

	check(ibv_post_srq_recv(s->srq, &wr, &bad), "ibv_post_srq_recv");
}

static struct member_answer make_srq(struct self *s)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = RECEIVES, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = s->dev.pd,
		.xrcd = s->xrcd,
		.cq = s->rcq,
	};
	struct member_answer a = { 0 };

	s->srq = ibv_create_srq_ex(s->dev.ctx, &attr);
	check(!s->srq, "ibv_create_srq_ex");
	for (uint64_t i = 0; i < RECEIVES; i++)
		post_receive(s, i);
	check(ibv_get_srq_num(s->srq, &a.value), "ibv_get_srq_num");
	a.key = s->mr->rkey;
	a.va = (uintptr_t)s->area + (uint64_t)RECEIVES * BYTES;
	return a;
}

/* What has come to the SRQ: one at a time, in order, and its slot is posted again. */
static void receive(struct self *s)
{
	struct ibv_wc wc;

	while (s->srq && ibv_poll_cq(s->rcq, 1, &wc) == 1) {
		uint32_t head[2];

		if (wc.status == IBV_WC_WR_FLUSH_ERR) {
			post_receive(s, wc.wr_id);
			continue;
		}
		if (wc.status != IBV_WC_SUCCESS)
			fail("a receive completes with %s", ibv_wc_status_str(wc.status));
		memcpy(head, s->area + wc.wr_id * BYTES, sizeof(head));
		if (head[0] >= STREAMS || head[1] != s->came[head[0]])
			fail("message %u of stream %u came instead of %u", head[1], head[0],
			     s->came[head[0]]);
		s->came[head[0]]++;
		post_receive(s, wc.wr_id);
	}
}

static struct ibv_qp_attr path(const struct self *s, const struct member_order *o)
{
	static const union ibv_gid none;
	bool far = memcmp(&o->to, &none, sizeof(none));

	return (struct ibv_qp_attr){
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = o->a,
		.rq_psn = PSN,
		.sq_psn = PSN,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 1,
		/* Eight tries far away: 4.3 s, more than a busy machine takes from a process. */
		.timeout = far ? 15 : 9,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = far ? o->to : s->dev.gid,
				      .sgid_index = PEER_GID_INDEX,
				      .hop_limit = 1 } },
	};
}

static void walk(struct self *s, struct ibv_qp *qp, const struct member_order *o)
{
	struct ibv_qp_attr a = path(s, o);
	bool t = qp->qp_type == IBV_QPT_XRC_RECV;

	a.qp_state = IBV_QPS_RESET;
	check(ibv_modify_qp(qp, &a, IBV_QP_STATE), "to RESET");
	a.qp_state = IBV_QPS_INIT;
	check(ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "to INIT");
	a.qp_state = IBV_QPS_RTR;
	check(ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN |
				    (t ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
	      "to RTR");
	a.qp_state = IBV_QPS_RTS;
	a.retry_cnt = (uint8_t)o->b;
	check(ibv_modify_qp(
		      qp, &a,
		      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN |
			      (t ? 0
				 : IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)),
	      "to RTS");
}

static struct member_answer make_target(struct self *s)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					    .xrcd = s->xrcd };

	s->target = ibv_create_qp_ex(s->dev.ctx, &attr);
	check(!s->target, "ibv_create_qp_ex");
	return (struct member_answer){ .value = s->target->qp_num };
}

static struct member_answer take(struct self *s, const struct member_order *o)
{
	struct ibv_qp_open_attr attr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .qp_num = o->a,
					 .xrcd = s->xrcd,
					 .qp_type = (enum ibv_qp_type)o->b };
	struct ibv_qp *qp = ibv_open_qp(s->dev.ctx, &attr);

	if (!qp)
		return (struct member_answer){ .err = errno };
	s->target = qp;
	return (struct member_answer){ .value = qp->qp_num };
}

static struct member_answer state(struct self *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check(ibv_query_qp(s->target, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	return (struct member_answer){ .value = attr.qp_state };
}

static struct member_answer make_sender(struct self *s)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_SEND,
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = s->dev.pd,
					    .send_cq = s->scq,
					    .sq_sig_all = 1,
					    .cap = { .max_send_wr = WINDOW, .max_send_sge = 1 } };

	s->sender = ibv_create_qp_ex(s->dev.ctx, &attr);
	check(!s->sender, "ibv_create_qp_ex");
	return (struct member_answer){ .value = s->sender->qp_num };
}

static void relabel(struct ibv_qp *qp, uint32_t label)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD };
	struct ibv_qp_init_attr init;

	check(ibv_modify_qp(qp, &a, IBV_QP_STATE), "to SQD");
	check(ibv_query_qp(qp, &a, IBV_QP_AV, &init), "ibv_query_qp");
	a.qp_state = IBV_QPS_SQD;
	a.ah_attr.grh.flow_label = label;
	check(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV), "another flow label");
	a.qp_state = IBV_QPS_RTS;
	check(ibv_modify_qp(qp, &a, IBV_QP_STATE), "back to RTS");
}

static void post(struct self *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	check(ibv_post_send(s->sender, wr, &bad), "ibv_post_send");
}

static void post_message(struct self *s, const struct member_order *o, uint32_t i)
{
	bool alternate = o->op == MEMBER_ALTERNATE, second = alternate && i / 3 % 2;
	uint32_t head[2] = { o->b + second, alternate ? i / 6 * 3 + i % 3 : i };
	uint8_t *at = s->area + AREA - (size_t)(1 + i % WINDOW) * BYTES;
	struct ibv_sge sg = { (uintptr_t)at, BYTES, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND };

	wr.qp_type.xrc.remote_srqn = second ? o->key : o->a;
	memcpy(at, head, sizeof(head));
	post(s, &wr);
}

static struct member_answer stream(struct self *s, const struct member_order *o)
{
	struct member_answer a = { .status = IBV_WC_SUCCESS };
	uint32_t posted = 0, done = 0;
	struct ibv_wc wc;

	while (done < o->n) {
		while (a.status == IBV_WC_SUCCESS && posted < o->n && posted - done < WINDOW)
			post_message(s, o, posted++);
		if (a.status != IBV_WC_SUCCESS && done == posted)
			break;
		receive(s);
		if (ibv_poll_cq(s->scq, 1, &wc) != 1)
			continue;
		done++;
		if (wc.status == IBV_WC_SUCCESS)
			a.value++;
		else if (a.status == IBV_WC_SUCCESS)
			a.status = wc.status;
	}
	return a;
}

/* One request of any kind on the 8 bytes at @va. */
static struct member_answer one(struct self *s, const struct member_order *o)
{
	uint64_t *at = (uint64_t *)(void *)(s->area + AREA - BYTES);
	struct ibv_sge sg = { (uintptr_t)at, 8, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = (enum ibv_wr_opcode)o->b,
				  .qp_type.xrc.remote_srqn = o->a };
	struct ibv_wc wc;

	*at = o->n;
	if (o->b == IBV_WR_ATOMIC_FETCH_AND_ADD || o->b == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = o->va;
		wr.wr.atomic.rkey = o->key;
		wr.wr.atomic.compare_add = o->n;
		wr.wr.atomic.swap = o->n + 1;
	} else {
		wr.wr.rdma.remote_addr = o->va;
		wr.wr.rdma.rkey = o->key;
	}
	post(s, &wr);
	if (!peer_poll(s->scq, &wc, 10000))
		fail("opcode %u does not complete", o->b);
	return (struct member_answer){ .status = wc.status, .word = *at };
}

static struct member_answer count(struct self *s, const struct member_order *o)
{
	while (s->came[o->b] < o->n)
		receive(s);
	return (struct member_answer){ .value = s->came[o->b] };
}

static struct member_answer obey_as_sender(struct self *s, const struct member_order *o)
{
	struct member_answer none = { 0 };

	switch (o->op) {
	case MEMBER_SENDER:
		return make_sender(s);
	case MEMBER_REACH:
		walk(s, s->sender, o);
		return none;
	case MEMBER_LABEL:
		relabel(s->sender, o->a);
		return none;
	case MEMBER_STREAM:
	case MEMBER_ALTERNATE:
		return stream(s, o);
	case MEMBER_OP:
		return one(s, o);
	default:
		_exit(0);
	}
}

static struct member_answer obey(struct self *s, const struct member_order *o)
{
	struct member_answer none = { 0 };

	switch (o->op) {
	case MEMBER_OPEN:
		return open_domain(s, (int)o->a);
	case MEMBER_SRQ:
		return make_srq(s);
	case MEMBER_TARGET:
		return make_target(s);
	case MEMBER_TAKE:
		return take(s, o);
	case MEMBER_CLOSE:
		return (struct member_answer){ .err = ibv_destroy_qp(s->target) };
	case MEMBER_JOIN:
		walk(s, s->target, o);
		return none;
	case MEMBER_STATE:
		return state(s);
	case MEMBER_STRANGER:
		return stranger(s);
	case MEMBER_COUNT:
		return count(s, o);
	default:
		return obey_as_sender(s, o);
	}
}

/* Whether there is an order; the SRQ is served meanwhile. */
static bool next(struct self *s, struct member_order *o)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	for (;;) {
		receive(s);
		if (poll(&p, 1, s->srq ? 0 : -1) <= 0)
			continue;
		return recv(s->fd, o, sizeof(*o), MSG_WAITALL) == sizeof(*o);
	}
}

struct place {
	int file;
	const char *netns;
};

static void go_to(const char *netns)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	check(fd < 0 || setns(fd, CLONE_NEWNET), "setns");
	close(fd);
}

static int live(int fd, void *arg)
{
	const struct place *place = arg;
	struct self s = { .file = place->file, .fd = fd };
	struct member_answer a;
	struct member_order o;

	if (place->netns)
		go_to(place->netns);
	open_all(&s);
	while (next(&s, &o)) {
		a = obey(&s, &o);
		a.gid = s.dev.gid;
		if (send(fd, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a))
			break;
	}
	return 0;
}

void member_start(struct member *m, int file)
{
	struct place here = { file, NULL };

	m->pid = peer_fork(live, &here, &m->fd);
}

void member_start_at(struct member *m, const char *netns)
{
	struct place there = { -1, netns };

	m->pid = peer_fork(live, &there, &m->fd);
}

void member_tell(struct member *m, const struct member_order *o)
{
	check(send(m->fd, o, sizeof(*o), MSG_NOSIGNAL) != sizeof(*o), "send");
}

struct member_answer member_hear(struct member *m)
{
	struct member_answer a = { 0 };

	if (recv(m->fd, &a, sizeof(a), MSG_WAITALL) != sizeof(a))
		fail("a member has ended: status %d", peer_wait(m->pid));
	return a;
}

struct member_answer member_do(struct member *m, const struct member_order *o)
{
	member_tell(m, o);
	return member_hear(m);
}

void member_kill(struct member *m)
{
	kill(m->pid, SIGKILL);
	peer_wait(m->pid);
	close(m->fd);
}
