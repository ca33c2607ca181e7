// SPDX-License-Identifier: MIT
/* Endpoints of librdmacm by the type of their queue pairs: two threads connect, and each sends. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { REJ_CONSUMER = 28 };

struct end {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	char text[64];
};

/* As a program sets it member by member: what lies between and behind them is garbage. */
static void attributes(struct ibv_qp_init_attr *attr)
{
	memset(attr, 0xff, sizeof(*attr));
	attr->qp_context = NULL;
	attr->send_cq = attr->recv_cq = NULL;
	attr->srq = NULL;
	attr->cap = (struct ibv_qp_cap){ 4, 4, 1, 1, 0 };
	attr->qp_type = IBV_QPT_RC;
	attr->sq_sig_all = 1;
}

static struct rdma_addrinfo address(struct sockaddr_in *at, int flags, enum ibv_qp_type type)
{
	struct rdma_addrinfo a = { .ai_flags = flags,
				   .ai_family = AF_INET,
				   .ai_qp_type = (int)type,
				   .ai_port_space = RDMA_PS_IB };

	if (flags & RAI_PASSIVE) {
		a.ai_src_addr = (struct sockaddr *)at;
		a.ai_src_len = sizeof(*at);
	} else {
		a.ai_dst_addr = (struct sockaddr *)at;
		a.ai_dst_len = sizeof(*at);
	}
	return a;
}

static struct rdma_cm_id *listener(enum ibv_qp_type type, struct sockaddr_in *at)
{
	struct rdma_addrinfo a = address(at, RAI_PASSIVE, type);
	struct ibv_qp_init_attr attr;
	struct rdma_cm_id *id;

	attributes(&attr);
	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	want_eq(rdma_create_ep(&id, &a, NULL, &attr), 0);
	want_eq(rdma_listen(id, 1), 0);
	at->sin_port = rdma_get_src_port(id);
	want(at->sin_port);
	return id;
}

static struct rdma_cm_id *client(enum ibv_qp_type type, struct sockaddr_in *at)
{
	struct rdma_addrinfo a = address(at, 0, type);
	struct ibv_qp_init_attr attr;
	struct rdma_cm_id *id;

	attributes(&attr);
	want_eq(rdma_create_ep(&id, &a, NULL, &attr), 0);
	return id;
}

static void ready(struct end *e, struct rdma_cm_id *id)
{
	e->id = id;
	e->mr = rdma_reg_msgs(id, e->text, sizeof(e->text));
	want(e->mr);
	want_eq(rdma_post_recv(id, NULL, e->text, sizeof(e->text) / 2, e->mr), 0);
}

/* Sends @text, and has @expected from the peer. */
static void exchange(struct end *e, const char *text, const char *expected)
{
	char *out = e->text + sizeof(e->text) / 2;
	struct ibv_wc wc;

	strcpy(out, text);
	want_eq(rdma_post_send(e->id, NULL, out, strlen(out) + 1, e->mr, 0), 0);
	want_eq(rdma_get_send_comp(e->id, &wc), 1);
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(rdma_get_recv_comp(e->id, &wc), 1);
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.byte_len, strlen(expected) + 1);
	want(!strcmp(e->text, expected));
}

static void finish(struct end *e)
{
	want_eq(rdma_disconnect(e->id), 0);
	want_eq(rdma_dereg_mr(e->mr), 0);
	rdma_destroy_ep(e->id);
}

static void *serve(void *listening)
{
	struct rdma_cm_id *id;
	struct end e;

	want_eq(rdma_get_request(listening, &id), 0);
	ready(&e, id);
	want_eq(rdma_accept(id, NULL), 0);
	exchange(&e, "of the server", "of the client");
	finish(&e);
	return NULL;
}

static void both_ways(int type)
{
	struct sockaddr_in at;
	struct rdma_cm_id *listening = listener((enum ibv_qp_type)type, &at);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct end e;
	pthread_t server;

	want_eq(pthread_create(&server, NULL, serve, listening), 0);
	ready(&e, client((enum ibv_qp_type)type, &at));
	want_eq(ibv_query_qp(e.id->qp, &attr, IBV_QP_STATE, &init), 0);
	want_eq(init.qp_type, type);
	want_eq(rdma_connect(e.id, NULL), 0);
	exchange(&e, "of the client", "of the server");
	finish(&e);
	pthread_join(server, NULL);
	rdma_destroy_ep(listening);
}

/* As of a kernel: the service is there, but not for such a one. */
static void another_type(int type)
{
	enum ibv_qp_type other = type == IBV_QPT_RC ? IBV_QPT_UC : IBV_QPT_RC;
	struct sockaddr_in at;
	struct rdma_cm_id *listening = listener(other, &at);
	struct rdma_cm_id *id = client((enum ibv_qp_type)type, &at);

	errno = 0;
	want_eq(rdma_connect(id, NULL), -1);
	want_eq(errno, ECONNREFUSED);
	want(id->event);
	want_eq(id->event->event, RDMA_CM_EVENT_REJECTED);
	want_eq(id->event->status, REJ_CONSUMER);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listening);
}

/* The parent's protection domain is not one of the child's. */
static void in_a_child(int type)
{
	struct sockaddr_in at;
	struct rdma_cm_id *listening, *id;
	int status;
	pid_t pid;

	if (cases_sanitized())
		return; /* the child may find the allocator of a sanitizer locked */
	listening = listener((enum ibv_qp_type)type, &at);
	id = client((enum ibv_qp_type)type, &at);
	pid = fork();
	if (!pid) {
		both_ways(type);
		exit(0);
	}
	want_eq(waitpid(pid, &status, 0), pid);
	want_eq(status, 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listening);
}

/* What the id was to hear of a group that it has left goes with the group. */
static void left_before_the_event(int arg)
{
	struct sockaddr_in here = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef010101) };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	(void)arg;
	want(channel);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&here), 0);
	want_eq(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	want_eq(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	want_eq(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	want_eq(rdma_get_cm_event(channel, &event), -1);
	want_eq(errno, EAGAIN);
	want_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static struct {
	struct sockaddr_in group;
	struct rdma_cm_id *id;
	pid_t thread; /* atomic */
} leaving;

static void *leave(void *arg)
{
	(void)arg;
	__atomic_store_n(&leaving.thread, gettid(), __ATOMIC_RELEASE);
	want_eq(rdma_leave_multicast(leaving.id, (struct sockaddr *)&leaving.group), 0);
	return NULL;
}

static void begin_leaving(struct rdma_event_channel *channel)
{
	struct sockaddr_in here = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	leaving.group =
		(struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef010101) };
	want_eq(rdma_create_id(channel, &leaving.id, NULL, RDMA_PS_UDP), 0);
	want_eq(rdma_bind_addr(leaving.id, (struct sockaddr *)&here), 0);
	want_eq(rdma_join_multicast(leaving.id, (struct sockaddr *)&leaving.group, &leaving), 0);
}

/* The thread that has fetched the event may still look at what the program gave to the join. */
static void left_beside_the_event(int arg)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	pthread_t thread;

	(void)arg;
	want(channel);
	begin_leaving(channel);
	want_eq(rdma_get_cm_event(channel, &event), 0);
	want_eq(event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	want(event->param.ud.private_data == &leaving);
	want_eq(pthread_create(&thread, NULL, leave, NULL), 0);
	peer_until_asleep(&leaving.thread);
	want_eq(rdma_ack_cm_event(event), 0);
	want_eq(pthread_join(thread, NULL), 0);
	want_eq(rdma_destroy_id(leaving.id), 0);
	rdma_destroy_event_channel(channel);
}

/* The id has fetched the event itself, and keeps it: nobody else acknowledges it. */
static void left_by_a_synchronous_id(int arg)
{
	(void)arg;
	begin_leaving(NULL);
	want_eq(rdma_leave_multicast(leaving.id, (struct sockaddr *)&leaving.group), 0);
	want_eq(rdma_destroy_id(leaving.id), 0);
}

/* --- groups of IPv6 --- */

enum { GRH = 40, WORDS = 3, WORD = 16 };

struct member {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_ah *group;
	struct ibv_ah_attr to_group;
	char in[WORDS][GRH + WORD], out[WORD];
};

static void become_member(struct member *m)
{
	struct sockaddr_in6 here = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct ibv_qp_init_attr attr;

	attributes(&attr);
	attr.qp_type = IBV_QPT_UD;
	want_eq(rdma_create_id(NULL, &m->id, NULL, RDMA_PS_UDP), 0);
	want_eq(rdma_bind_addr(m->id, (struct sockaddr *)&here), 0);
	want_eq(rdma_create_qp(m->id, NULL, &attr), 0);
	m->mr = rdma_reg_msgs(m->id, m->in, sizeof(m->in) + sizeof(m->out));
	want(m->mr);
	for (int i = 0; i < WORDS; i++)
		want_eq(rdma_post_recv(m->id, m->in[i], m->in[i], sizeof(m->in[i]), m->mr), 0);
}

static void join(struct member *m, struct sockaddr_in6 *group, bool send_only)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = send_only ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
					: RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)group
	};

	want_eq(rdma_join_multicast_ex(m->id, &attr, NULL), 0);
	want_eq(m->id->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	m->to_group = m->id->event->param.ud.ah_attr;
	want(!memcmp(&m->to_group.grh.dgid, &group->sin6_addr, sizeof(group->sin6_addr)));
	m->group = ibv_create_ah(m->id->pd, &m->to_group);
	want(m->group);
}

static void says(struct member *m, const char *word, struct ibv_ah *to, uint32_t qpn)
{
	struct ibv_wc wc;

	strcpy(m->out, word);
	want_eq(rdma_post_ud_send(m->id, NULL, m->out, WORD, m->mr, 0, to, qpn), 0);
	want_eq(rdma_get_send_comp(m->id, &wc), 1);
	want_eq(wc.status, IBV_WC_SUCCESS);
}

/* The next datagram for it. */
static const char *heard(struct member *m)
{
	struct ibv_wc wc;

	want_eq(rdma_get_recv_comp(m->id, &wc), 1);
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.byte_len, GRH + WORD);
	return (char *)(uintptr_t)wc.wr_id + GRH;
}

static void resign(struct member *m, struct sockaddr_in6 *group)
{
	want_eq(rdma_leave_multicast(m->id, (struct sockaddr *)group), 0);
	want_eq(ibv_destroy_ah(m->group), 0);
	rdma_destroy_qp(m->id);
	want_eq(rdma_dereg_mr(m->mr), 0);
	want_eq(rdma_destroy_id(m->id), 0);
}

/* What is for it, from that word on, each once: its own to the group, too. */
static void hears_each(struct member *m, int from)
{
	static const char *const words[WORDS] = { "to all", "again", "to one" };
	bool seen[WORDS] = { false };

	for (int n = from; n < WORDS; n++) {
		const char *word = heard(m);
		int i = from;

		while (i < WORDS && (seen[i] || strcmp(word, words[i]) != 0))
			i++;
		want(i < WORDS);
		seen[i] = true;
	}
}

/* One that joins to send alone reaches the group, and hears only what is for itself. */
static void a_group_of_ipv6(int send_only)
{
	static struct member all, one;
	struct sockaddr_in6 group = { .sin6_family = AF_INET6 };
	struct ibv_ah_attr to_one;
	struct ibv_ah *direct;

	become_member(&all);
	become_member(&one);
	want_eq(inet_pton(AF_INET6, "ff0e::7", &group.sin6_addr), 1);
	memcpy(group.sin6_addr.s6_addr + 8, &all.id->qp->qp_num, 4); /* no other process' group */
	join(&all, &group, false);
	join(&one, &group, send_only);
	says(&one, "to all", one.group, 0xffffff);
	want(!strcmp(heard(&all), "to all"));
	to_one = all.to_group;
	to_one.grh.dgid = one.id->route.addr.addr.ibaddr.sgid;
	direct = ibv_create_ah(all.id->pd, &to_one);
	want(direct);
	says(&all, "again", all.group, 0xffffff);
	says(&all, "to one", direct, one.id->qp->qp_num);
	hears_each(&one, send_only ? WORDS - 1 : 0);
	want_eq(ibv_destroy_ah(direct), 0);
	resign(&one, &group);
	resign(&all, &group);
}

int main(void)
{
	static const struct test_case list[] = {
		CASE_ARG(both_ways, IBV_QPT_RC),
		CASE_ARG(both_ways, IBV_QPT_UC),
		CASE_ARG(another_type, IBV_QPT_RC),
		CASE_ARG(another_type, IBV_QPT_UC),
		CASE_ARG(in_a_child, IBV_QPT_RC),
		CASE(left_before_the_event),
		CASE(left_beside_the_event),
		CASE(left_by_a_synchronous_id),
		{ "a_group_of_ipv6 (full)", a_group_of_ipv6, 0 },
		{ "a_group_of_ipv6 (to send alone)", a_group_of_ipv6, 1 },
	};

	return CASES_RUN(list);
}
