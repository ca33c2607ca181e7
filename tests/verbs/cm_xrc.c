// SPDX-License-Identifier: MIT
/* The sender of an XRC connection whose server is killed. The connection manager tells it nothing,
 * since other processes of the domain may serve the target queue pair: if one has it open, messages
 * go on to arrive; if none has, they end in RETRY_EXC. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/member.h"

enum {
	BYTES = 64, /* of a message, and of what a member receives into */
	MESSAGES = 20,
	RETRIES = 3,
	RNR_FOR_EVER = 7,
	DEPTH = 4,
};

/* What a server is given, and what it tells. */
struct server {
	uint16_t port; /* network order; 0: one that is free */
	int file; /* of its domain; -1: the domain is its own */
	uint32_t qpn, srqn;
};

struct client {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint32_t srqn;
	uint8_t bytes[BYTES];
};

static struct rdma_event_channel *channel;

/* --- the server --- */

static struct rdma_cm_id *endpoint(uint16_t port, int flags, enum ibv_qp_type type)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = port,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_addrinfo a = { .ai_flags = flags,
				   .ai_family = AF_INET,
				   .ai_qp_type = (int)type,
				   .ai_port_space = RDMA_PS_TCP };
	struct rdma_cm_id *id;

	if (flags & RAI_PASSIVE) {
		a.ai_src_addr = (struct sockaddr *)&at;
		a.ai_src_len = sizeof(at);
	} else {
		a.ai_dst_addr = (struct sockaddr *)&at;
		a.ai_dst_len = sizeof(at);
	}
	want_eq(rdma_create_ep(&id, &a, NULL, NULL), 0);
	return id;
}

static void make_target(struct rdma_cm_id *id, int file)
{
	struct ibv_xrcd_init_attr domain = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					     file, O_CREAT };
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV };

	if (file >= 0) {
		attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		attr.xrcd = ibv_open_xrcd(id->verbs, &domain);
		want(attr.xrcd);
	}
	want_eq(rdma_create_qp_ex(id, &attr), 0);
}

/* Without a receive. */
static uint32_t make_srq(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 },
					     .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
					     .srq_type = IBV_SRQT_XRC };
	uint32_t number;

	want_eq(rdma_create_srq_ex(id, &attr), 0);
	want_eq(ibv_get_srq_num(id->srq, &number), 0);
	return number;
}

static void receive(struct rdma_cm_id *id, uint8_t *bytes)
{
	struct ibv_mr *mr = rdma_reg_msgs(id, bytes, BYTES);
	struct ibv_sge sg = { (uintptr_t)bytes, BYTES, mr ? mr->lkey : 0 };
	struct ibv_recv_wr wr = { .sg_list = &sg, .num_sge = 1 }, *bad;

	want(mr);
	want_eq(ibv_post_srq_recv(id->srq, &wr, &bad), 0);
}

/* Serves one connection until it is killed, with room for one message. */
static int serve(int fd, void *arg)
{
	struct server s = *(struct server *)arg;
	struct rdma_conn_param param = { .rnr_retry_count = RNR_FOR_EVER }; /* the client's */
	struct rdma_cm_id *listening = endpoint(s.port, RAI_PASSIVE, IBV_QPT_XRC_RECV), *id;
	uint8_t bytes[BYTES];

	want_eq(rdma_listen(listening, 1), 0);
	s.port = rdma_get_src_port(listening);
	want_eq(write(fd, &s, sizeof(s)), sizeof(s));
	want_eq(rdma_get_request(listening, &id), 0);
	make_target(id, s.file);
	s.qpn = id->qp->qp_num;
	s.srqn = make_srq(id);
	receive(id, bytes);
	want_eq(rdma_accept(id, &param), 0);
	want_eq(write(fd, &s, sizeof(s)), sizeof(s));
	return read(fd, bytes, 1) < 0; /* forever */
}

static pid_t start(struct server *s, int *fd)
{
	pid_t pid = peer_fork(serve, s, fd);

	want_eq(read(*fd, s, sizeof(*s)), sizeof(*s));
	return pid;
}

/* The port is free when this returns. */
static void end(pid_t pid, int fd)
{
	want_eq(kill(pid, SIGKILL), 0);
	want_eq(peer_wait(pid), 128 + SIGKILL);
	close(fd);
}

/* --- the client --- */

/* The next event of all ids. */
static void next(const struct client *c, enum rdma_cm_event_type which)
{
	struct rdma_cm_event *event;

	want_eq(rdma_get_cm_event(channel, &event), 0);
	peer_note("the event %s, status %d", rdma_event_str(event->event), event->status);
	want_eq(event->event, which);
	want(event->id == c->id);
	want_eq(rdma_ack_cm_event(event), 0);
}

static void meet(struct client *c, struct server *s, int fd)
{
	struct rdma_conn_param param = { .retry_count = RETRIES };
	struct ibv_qp_init_attr attr = { .cap = { DEPTH, 0, 1, 0, 0 },
					 .qp_type = IBV_QPT_XRC_SEND,
					 .sq_sig_all = 1 };

	c->id = endpoint(s->port, 0, IBV_QPT_XRC_SEND);
	want_eq(rdma_create_qp(c->id, NULL, &attr), 0);
	want_eq(rdma_migrate_id(c->id, channel), 0);
	c->mr = rdma_reg_msgs(c->id, c->bytes, sizeof(c->bytes));
	want(c->mr);
	want_eq(rdma_connect(c->id, &param), 0);
	next(c, RDMA_CM_EVENT_ESTABLISHED);
	want_eq(read(fd, s, sizeof(*s)), sizeof(*s));
	c->srqn = s->srqn;
}

static void part(struct client *c)
{
	want_eq(rdma_dereg_mr(c->mr), 0);
	rdma_destroy_qp(c->id);
	want_eq(rdma_destroy_id(c->id), 0);
}

/* As those that members count: its stream, its number in it. */
static void send_one(struct client *c, uint32_t number)
{
	uint32_t head[2] = { 0, number };
	struct ibv_sge sg = { (uintptr_t)c->bytes, BYTES, c->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .qp_type.xrc.remote_srqn = c->srqn },
			   *bad;

	memcpy(c->bytes, head, sizeof(head));
	want_eq(ibv_post_send(c->id->qp, &wr, &bad), 0);
}

static void ends_in(struct client *c, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	want(peer_poll(c->id->send_cq, &wc, 60000));
	want_eq(wc.status, status);
}

/* --- cases --- */

/* With @outstanding, two messages wait for receives at that moment, else none is on its way. */
static void the_only_server_is_killed(int outstanding)
{
	struct server s = { .file = -1 };
	struct client c, other;
	int fd;
	pid_t pid = start(&s, &fd);

	channel = rdma_create_event_channel();
	want(channel);
	meet(&c, &s, fd);
	send_one(&c, 0);
	ends_in(&c, IBV_WC_SUCCESS);
	if (outstanding) {
		send_one(&c, 1);
		send_one(&c, 2);
	}
	end(pid, fd);
	if (!outstanding)
		send_one(&c, 1);
	ends_in(&c, IBV_WC_RETRY_EXC_ERR);
	if (outstanding)
		ends_in(&c, IBV_WC_WR_FLUSH_ERR);
	send_one(&c, 3);
	ends_in(&c, IBV_WC_WR_FLUSH_ERR);

	/* Another one at the same port. Its connection's event is the next of all. */
	pid = start(&s, &fd);
	meet(&other, &s, fd);
	send_one(&other, 0);
	ends_in(&other, IBV_WC_SUCCESS);

	want_eq(rdma_disconnect(c.id), 0);
	next(&c, RDMA_CM_EVENT_DISCONNECTED);
	part(&c);
	part(&other);
	end(pid, fd);
	rdma_destroy_event_channel(channel);
}

/* It has opened the target before. */
static void another_process_serves_on(int arg)
{
	int file = memfd_create("domain", 0), fd, other_fd;
	struct server s = { .file = file }, other = { .file = -1 };
	struct client c, beside;
	struct member m;
	pid_t pid, other_pid;

	(void)arg;
	want(file >= 0);
	member_start(&m, file);
	pid = start(&s, &fd);
	other_pid = start(&other, &other_fd);
	channel = rdma_create_event_channel();
	want(channel);
	meet(&c, &s, fd);
	want_eq(MEMBER_DO(&m, MEMBER_OPEN, 0).err, 0);
	want_eq(MEMBER_DO(&m, MEMBER_TAKE, s.qpn, IBV_QPT_XRC_RECV).err, 0);
	c.srqn = MEMBER_DO(&m, MEMBER_SRQ).value;
	end(pid, fd);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		send_one(&c, i);
		ends_in(&c, IBV_WC_SUCCESS);
	}
	want_eq(MEMBER_DO(&m, MEMBER_COUNT, 0, 0, MESSAGES).value, MESSAGES);
	want_eq(MEMBER_DO(&m, MEMBER_STATE).value, IBV_QPS_RTS);
	meet(&beside, &other, other_fd);
	want_eq(rdma_disconnect(c.id), 0);
	next(&c, RDMA_CM_EVENT_DISCONNECTED);
	part(&c);
	part(&beside);
	end(other_pid, other_fd);
	member_kill(&m);
	rdma_destroy_event_channel(channel);
	close(file);
}

int main(void)
{
	static const struct test_case list[] = {
		CASE_ARG(the_only_server_is_killed, 0),
		CASE_ARG(the_only_server_is_killed, 1),
		CASE(another_process_serves_on),
	};

	return CASES_RUN(list);
}
