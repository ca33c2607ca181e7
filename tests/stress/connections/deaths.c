// SPDX-License-Identifier: MIT
/* A server and a client that connects to it, sends and disconnects, for ever. One of them is
 * killed at a random moment, again and again: the other hears of it, the next server has the port
 * at once, and in the end nothing is left. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { SHORT = 60, FULL = 10000, MOMENT_US = 4000, LIMIT_MS = 2000, BYTES = 64 };
enum { READY = 'R', ENDED = 'E', ASK = 'q', EMPTY = 'Z', LEAVE = 'x' };

/* A child, and the parent's ends of its pipes. */
struct side {
	pid_t pid;
	int said, told;
};

static in_port_t port;
static int out_fd, in_fd; /* a child's */

static void say(char c)
{
	want_eq(write(out_fd, &c, 1), 1);
}

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static unsigned int dice(unsigned int n)
{
	unsigned int r = 0;

	want_eq(getrandom(&r, sizeof(r), 0), sizeof(r));
	return r % n;
}

static unsigned int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	want(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct sockaddr_in place(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				     .sin_port = port };
}

/* --- an end of a connection --- */

static struct ibv_cq *cq;
static uint8_t memory[BYTES];
static struct ibv_mr *mr;

static void make_cq(const struct rdma_cm_id *id)
{
	if (cq)
		return;
	cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0);
	mr = ibv_reg_mr(id->pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	want(cq && mr);
}

/* 0, or -1: the peer of the request has ended since. */
static int make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };

	make_cq(id);
	attr.send_cq = attr.recv_cq = cq;
	return rdma_create_qp(id, NULL, &attr);
}

static struct ibv_sge sge(void)
{
	return (struct ibv_sge){ (uintptr_t)memory, BYTES, mr->lkey };
}

static void unmake(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	want_eq(rdma_destroy_id(id), 0);
}

/* --- the server --- */

static unsigned int open_ids;

static void accept_it(struct rdma_cm_id *id)
{
	struct ibv_sge s = { 0 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &s, .num_sge = 1 };
	struct rdma_conn_param p = { .retry_count = 7, .rnr_retry_count = 7 };

	make_cq(id);
	s = sge();
	if (make_qp(id) || ibv_post_recv(id->qp, &wr, &bad) || rdma_accept(id, &p))
		unmake(id); /* the client has ended since */
	else
		open_ids++;
}

static void serve_event(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;
	enum rdma_cm_event_type type;

	want_eq(rdma_get_cm_event(ch, &e), 0);
	id = e->id;
	type = e->event;
	want_eq(rdma_ack_cm_event(e), 0);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		accept_it(id);
	} else if (type != RDMA_CM_EVENT_ESTABLISHED && type != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
		rdma_disconnect(id);
		unmake(id);
		open_ids--;
	}
}

static int serve(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in at = place();
	struct rdma_cm_id *id;
	struct pollfd p[2] = { { .fd = in_fd, .events = POLLIN }, { .events = POLLIN } };
	unsigned int before;
	bool asked = false;
	char c;

	want(ch);
	want_eq(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	want_eq(rdma_listen(id, 8), 0);
	make_cq(id);
	before = descriptors();
	p[1].fd = ch->fd;
	say(READY);
	for (;;) {
		want(poll(p, 2, -1) > 0);
		if (p[1].revents)
			serve_event(ch);
		if (p[0].revents) {
			want_eq(read(in_fd, &c, 1), 1);
			if (c == LEAVE)
				return descriptors() > before + 8; /* contacts of the links */
			asked = true;
		}
		if (asked && !open_ids) {
			say(EMPTY);
			asked = false;
		}
	}
}

/* --- the client --- */

/* The next event; true if it is @type. */
static bool comes(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	bool good;

	want_eq(rdma_get_cm_event(ch, &e), 0);
	good = e->event == type;
	want_eq(rdma_ack_cm_event(e), 0);
	return good;
}

/* Its completion, or the end of the connection. */
static bool send_one(struct rdma_event_channel *ch, struct rdma_cm_id *id)
{
	struct ibv_sge s = sge();
	struct ibv_send_wr *bad, wr = {
		.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct ibv_wc wc;

	want_eq(ibv_post_send(id->qp, &wr, &bad), 0);
	while (!ibv_poll_cq(cq, 1, &wc))
		if (poll(&p, 1, 0) == 1)
			return false;
	return wc.status == IBV_WC_SUCCESS;
}

static bool talk(struct rdma_event_channel *ch, struct rdma_cm_id *id)
{
	struct rdma_conn_param p = { .retry_count = 7, .rnr_retry_count = 7 };
	struct sockaddr_in to = place();

	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000) ||
	    !comes(ch, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, 2000) ||
	    !comes(ch, RDMA_CM_EVENT_ROUTE_RESOLVED))
		return false;
	want_eq(make_qp(id), 0);
	return !rdma_connect(id, &p) && comes(ch, RDMA_CM_EVENT_ESTABLISHED) && send_one(ch, id) &&
	       !rdma_disconnect(id) && comes(ch, RDMA_CM_EVENT_DISCONNECTED);
}

static int connect_for_ever(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct ibv_wc wc;

	want(ch);
	say(READY);
	for (;;) {
		bool good;

		want_eq(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
		good = talk(ch, id);
		unmake(id);
		while (cq && ibv_poll_cq(cq, 1, &wc) > 0)
			;
		if (!good)
			say(ENDED);
	}
}

/* --- the one who kills --- */

static struct side start(int (*f)(void))
{
	int up[2], down[2];
	struct side s;

	want(!pipe2(up, O_CLOEXEC) && !pipe2(down, O_CLOEXEC));
	s.pid = fork();
	want(s.pid >= 0);
	if (!s.pid) {
		out_fd = up[1];
		in_fd = down[0];
		close(up[0]);
		close(down[1]);
		_exit(f());
	}
	close(up[1]);
	close(down[0]);
	s.said = up[0];
	s.told = down[1];
	return s;
}

/* Until @c is said; us. */
static int64_t hear(const struct side *s, char c, const char *what)
{
	int limit = LIMIT_MS * (cases_sanitized() ? 10 : 1);
	struct pollfd p = { .fd = s->said, .events = POLLIN };
	int64_t begun = now_us();
	char got = 0;

	do {
		if (poll(&p, 1, limit) != 1 || read(s->said, &got, 1) != 1)
			fail("%s: not heard in %d ms", what, limit);
	} while (got != c);
	return now_us() - begun;
}

static void drain(const struct side *s)
{
	struct pollfd p = { .fd = s->said, .events = POLLIN };
	char c;

	while (poll(&p, 1, 0) == 1 && read(s->said, &c, 1) == 1)
		;
}

static void bury(struct side *s)
{
	int status;

	want_eq(kill(s->pid, SIGKILL), 0);
	want_eq(waitpid(s->pid, &status, 0), s->pid);
	want(WIFSIGNALED(status)); /* nothing else has ended it before */
	close(s->said);
	close(s->told);
}

static int64_t kill_server(struct side *server, const struct side *client)
{
	int64_t us;

	drain(client);
	bury(server);
	us = hear(client, ENDED, "the end of the server");
	*server = start(serve);
	hear(server, READY, "the next server, on the same port");
	return us;
}

static int64_t kill_client(const struct side *server, struct side *client)
{
	char c = ASK;
	int64_t us;

	bury(client);
	want_eq(write(server->told, &c, 1), 1);
	us = hear(server, EMPTY, "the end of the client");
	*client = start(connect_for_ever);
	hear(client, READY, "the next client");
	return us;
}

static void nothing_left(void)
{
	FILE *f = fopen("/proc/self/net/unix", "re");
	char line[512];

	want(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "@softhca"))
			fail("left behind: %s", line);
	fclose(f);
}

static void kills(int many)
{
	struct side server, client;
	int64_t us, longest = 0, late = 0;
	char c = LEAVE;
	int status;

	port = htons((uint16_t)(20000 + dice(10000)));
	server = start(serve);
	hear(&server, READY, "the first server");
	client = start(connect_for_ever);
	hear(&client, READY, "the first client");
	for (int i = 0; i < many; i++) {
		usleep(dice(MOMENT_US)); /* the moment */
		us = dice(2) ? kill_server(&server, &client) : kill_client(&server, &client);
		longest = us > longest ? us : longest;
		late += us > 100000;
		if (i % 500 == 499) {
			printf("# %d of %d\n", i + 1, many);
			fflush(stdout);
		}
	}
	printf("# %d killed; heard after at most %lld us, %lld times after more than 100 ms\n",
	       many, (long long)longest, (long long)late);
	bury(&client);
	want_eq(write(server.told, &c, 1), 1);
	want_eq(waitpid(server.pid, &status, 0), server.pid);
	want_eq(status, 0);
	nothing_left();
}

int main(void)
{
	const struct test_case list[] = { { "killed", kills, cases_full() ? FULL : SHORT } };

	return CASES_RUN(list);
}
