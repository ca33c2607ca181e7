// SPDX-License-Identifier: MIT
/* Many connections between two processes, all at once: each carries a message there and one back,
 * through completion queues that all of them share. */
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { SHORT = 500, FULL = 10000, WINDOW = 64, BYTES = 8, BACKLOG = 1024 };

/* One end of all connections; slot i of the memory is connection i's. */
struct end {
	struct rdma_event_channel *ch;
	struct rdma_cm_id **id;
	uint64_t *memory; /* [2 * n]: to receive, to send */
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	int n, made, open;
	int ended;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void begin(struct end *e, int n)
{
	struct rlimit files = { (rlim_t)n + 256, (rlim_t)n + 256 };

	setrlimit(RLIMIT_NOFILE, &files);
	e->n = n;
	e->ch = rdma_create_event_channel();
	e->id = calloc((size_t)n, sizeof(struct rdma_cm_id *));
	e->memory = calloc(2 * (size_t)n, BYTES);
	want(e->ch && e->id && e->memory);
}

static void post_recv(const struct end *e, int i)
{
	struct ibv_sge s = { (uintptr_t)&e->memory[i], BYTES, e->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = (uint64_t)i, .sg_list = &s, .num_sge = 1 };

	want_eq(ibv_post_recv(e->id[i]->qp, &wr, &bad), 0);
}

static void post_send(const struct end *e, int i, uint64_t value)
{
	struct ibv_sge s = { (uintptr_t)&e->memory[e->n + i], BYTES, e->mr->lkey };
	struct ibv_send_wr *bad,
		wr = { .wr_id = (uint64_t)i, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND };

	e->memory[e->n + i] = value;
	want_eq(ibv_post_send(e->id[i]->qp, &wr, &bad), 0);
}

static void make_qp(struct end *e, struct rdma_cm_id *id, int i)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };

	if (!e->cq) {
		e->cq = ibv_create_cq(id->verbs, 2 * e->n, NULL, NULL, 0);
		e->mr = ibv_reg_mr(id->pd, e->memory, 2 * (size_t)e->n * BYTES,
				   IBV_ACCESS_LOCAL_WRITE);
		want(e->cq && e->mr);
	}
	attr.send_cq = attr.recv_cq = e->cq;
	want_eq(rdma_create_qp(id, NULL, &attr), 0);
	e->id[i] = id;
	id->context = (void *)(intptr_t)i;
	post_recv(e, i);
}

/* The number of the connection that the next message came on. */
static int received(const struct end *e)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(e->cq, 1, &wc))
		;
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.opcode, IBV_WC_RECV);
	return (int)wc.wr_id;
}

static void ended(struct end *e, struct rdma_cm_id *id)
{
	want_eq(rdma_disconnect(id), 0);
	e->ended++;
}

static void leave(struct end *e)
{
	for (int i = 0; i < e->n; i++) {
		rdma_destroy_qp(e->id[i]);
		want_eq(rdma_destroy_id(e->id[i]), 0);
	}
	want_eq(ibv_dereg_mr(e->mr), 0);
	want_eq(ibv_destroy_cq(e->cq), 0);
	rdma_destroy_event_channel(e->ch);
	free(e->memory);
	free(e->id);
}

/* --- the passive end --- */

static void serve_event(struct end *e)
{
	struct rdma_conn_param p = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_event *event;

	want_eq(rdma_get_cm_event(e->ch, &event), 0);
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		want(e->made < e->n);
		make_qp(e, event->id, e->made++);
		want_eq(rdma_accept(event->id, &p), 0);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		e->open++;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		ended(e, event->id);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fail("%s, status %d", rdma_event_str(event->event), event->status);
	}
	want_eq(rdma_ack_cm_event(event), 0);
}

static int serve(int n, int told)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *listener;
	struct end e = { 0 };
	in_port_t port;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	begin(&e, n);
	want_eq(rdma_create_id(e.ch, &listener, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(listener, (struct sockaddr *)&at), 0);
	want_eq(rdma_listen(listener, BACKLOG), 0);
	port = rdma_get_src_port(listener);
	want_eq(write(told, &port, sizeof(port)), (ssize_t)sizeof(port));
	while (e.open < n)
		serve_event(&e);
	for (int k = 0; k < n; k++) {
		int i = received(&e);

		post_send(&e, i, e.memory[i] + 1);
	}
	while (e.ended < n)
		serve_event(&e);
	leave(&e);
	return rdma_destroy_id(listener) ? 1 : 0;
}

/* --- the active end --- */

static void resolve_one(struct end *e, struct sockaddr_in *to)
{
	struct rdma_cm_id *id;

	want_eq(rdma_create_id(e->ch, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)to, 5000), 0);
	e->made++;
}

static void client_event(struct end *e, struct sockaddr_in *to)
{
	struct rdma_conn_param p = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_event *event;

	want_eq(rdma_get_cm_event(e->ch, &event), 0);
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		want_eq(rdma_resolve_route(event->id, 5000), 0);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		for (int i = e->made - 1; !event->id->qp; i--)
			if (!e->id[i])
				make_qp(e, event->id, i);
		want_eq(rdma_connect(event->id, &p), 0);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		e->open++;
		if (e->made < e->n)
			resolve_one(e, to);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		e->ended++;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fail("%s, status %d", rdma_event_str(event->event), event->status);
	}
	want_eq(rdma_ack_cm_event(event), 0);
}

static void ask(int n, in_port_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = port };
	double at[4] = { now() };
	struct end e = { 0 };

	begin(&e, n);
	while (e.made < n && e.made < WINDOW)
		resolve_one(&e, &to);
	while (e.open < n)
		client_event(&e, &to);
	at[1] = now();
	for (int i = 0; i < n; i++)
		post_send(&e, i, 2 * (uint64_t)i);
	for (int k = 0; k < n; k++) {
		int i = received(&e);

		want_eq(e.memory[i], 2 * i + 1);
	}
	at[2] = now();
	for (int i = 0; i < n; i++)
		want_eq(rdma_disconnect(e.id[i]), 0);
	while (e.ended < n)
		client_event(&e, &to);
	leave(&e);
	at[3] = now();
	printf("# %d connections: %.0f a second; a message each way on all %.3f s; ended %.3f s\n",
	       n, n / (at[1] - at[0]), at[2] - at[1], at[3] - at[2]);
}

static void crowd(int n)
{
	int told[2], status;
	in_port_t port;
	pid_t server;

	want(!pipe(told));
	server = fork();
	want(server >= 0);
	if (!server)
		_exit(serve(n, told[1]));
	want_eq(read(told[0], &port, sizeof(port)), (ssize_t)sizeof(port));
	ask(n, port);
	want_eq(waitpid(server, &status, 0), server);
	want_eq(status, 0);
}

int main(void)
{
	const struct test_case list[] = { { "live at once", crowd, cases_full() ? FULL : SHORT } };

	return CASES_RUN(list);
}
