// SPDX-License-Identifier: MIT
#include "verbs/sockets.h"
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { GREETING = 40 };

/* --- two ends --- */

int iomaps;

struct sockaddr_in any_port(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void offer(int fd)
{
	if (iomaps)
		want_eq(rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &iomaps, sizeof(iomaps)), 0);
}

int listener(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	*at = any_port();
	want(fd >= 0);
	offer(fd);
	want_eq(rbind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	want_eq(rlisten(fd, 8), 0);
	want_eq(rgetsockname(fd, (struct sockaddr *)at, &len), 0);
	want(at->sin_port);
	return fd;
}

void wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	want_eq(rpoll(&p, 1, LIMIT), 1);
	want(p.revents & events);
}

/* Two ends in one thread: the one that connects does not block. */
void connected(int *near, int *far)
{
	struct sockaddr_in at, from;
	socklen_t len = sizeof(from);
	int l = listener(&at), err = -1;
	socklen_t n = sizeof(err);

	*near = rsocket(AF_INET, SOCK_STREAM, 0);
	want(*near >= 0);
	offer(*near);
	want_eq(rfcntl(*near, F_SETFL, O_NONBLOCK), 0);
	if (rconnect(*near, (struct sockaddr *)&at, sizeof(at))) /* it may be accepted already */
		want_eq(errno, EINPROGRESS);
	for (struct pollfd p[2];;) {
		p[0] = (struct pollfd){ .fd = l, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = *near, .events = POLLOUT };
		want(rpoll(p, 2, LIMIT) > 0);
		want(!(p[1].revents & POLLERR));
		if (p[0].revents)
			break;
	}
	*far = raccept(l, (struct sockaddr *)&from, &len);
	want(*far >= 0);
	want_eq(from.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	wait_for(*near, POLLOUT);
	want_eq(rgetsockopt(*near, SOL_SOCKET, SO_ERROR, &err, &n), 0);
	want_eq(err, 0);
	want_eq(rfcntl(*near, F_SETFL, 0), 0);
	want_eq(rclose(l), 0);
}

/* --- a peer that lies --- */

static uint64_t get_be(const uint8_t *p, int n)
{
	uint64_t v = 0;

	for (int i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static void put_be(uint8_t *p, int n, uint64_t v)
{
	for (int i = n; i--; v >>= 8)
		p[i] = (uint8_t)v;
}

static void greet(const struct liar *l, uint8_t version, uint8_t *g)
{
	memset(g, 0, GREETING);
	g[0] = version;
	g[1] = 2; /* it has an I/O map */
	g[7] = 8; /* of so many entries, behind the SGEs */
	put_be(g + 2, 2, 384);
	put_be(g + 8, 8, (uintptr_t)l->mem);
	put_be(g + 16, 4, l->mr->rkey);
	put_be(g + 20, 4, 2);
	put_be(g + 24, 8, (uintptr_t)l->mem + 1024);
	put_be(g + 32, 4, l->mr->rkey);
	put_be(g + 36, 4, 1024);
}

/* Accepts the next connection as an rsocket of @version would; @receives: 0, credits never come. */
static void lie_accept(struct liar *l, uint8_t version, int receives)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC,
				      .sq_sig_all = 1,
				      .cap = { 400, 400, 1, 1, 64 } };
	struct rdma_conn_param p = { .private_data_len = GREETING, .rnr_retry_count = 7 };
	uint8_t g[GREETING];
	const uint8_t *theirs;

	want_eq(rdma_get_request(l->listen, &l->id), 0);
	theirs = l->id->event->param.conn.private_data;
	want(theirs && l->id->event->param.conn.private_data_len >= GREETING);
	l->sges = get_be(theirs + 8, 8);
	l->sges_key = (uint32_t)get_be(theirs + 16, 4);
	l->data = get_be(theirs + 24, 8);
	l->data_key = (uint32_t)get_be(theirs + 32, 4);
	want_eq(rdma_create_qp(l->id, NULL, &a), 0);
	l->mr = ibv_reg_mr(l->id->pd, l->mem, sizeof(l->mem),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	want(l->mr);
	for (int i = 0; i < receives; i++)
		want_eq(rdma_post_recv(l->id, NULL, l->mem, 0, l->mr), 0);
	greet(l, version, g);
	p.private_data = g;
	want_eq(fcntl(l->id->channel->fd, F_SETFL, O_NONBLOCK), 0);
	rdma_accept(l->id, &p);
}

void lie(struct liar *l, uint32_t imm, uint64_t addr, uint32_t key, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)l->mem + 2048, len, l->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = len ? 1 : 0,
					.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					.imm_data = htobe32(imm) };

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = key;
	want_eq(ibv_post_send(l->id->qp, &wr, &bad), 0);
}

static void lie_listen(struct liar *l, struct sockaddr_in *at)
{
	*at = any_port();
	want_eq(rdma_create_id(NULL, &l->listen, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(l->listen, (struct sockaddr *)at), 0);
	want_eq(rdma_listen(l->listen, 1), 0);
	at->sin_port = rdma_get_src_port(l->listen);
}

int meet_liar(struct liar *l, uint8_t version, int receives)
{
	struct sockaddr_in at;
	struct pollfd p = { .events = POLLIN };
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	lie_listen(l, &at);
	offer(fd);
	want_eq(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	want_minus1(rconnect(fd, (struct sockaddr *)&at, sizeof(at)), EINPROGRESS);
	do { /* what drives the connection, until its request is out */
		struct pollfd q[2] = { { .fd = fd, .events = POLLOUT }, p };

		q[1].fd = l->listen->channel->fd;
		want(rpoll(q, 2, LIMIT) > 0);
		p.revents = q[1].revents;
	} while (!p.revents);
	lie_accept(l, version, receives);
	wait_for(fd, POLLOUT);
	return fd;
}

void end_liar(struct liar *l)
{
	rdma_destroy_qp(l->id);
	ibv_dereg_mr(l->mr);
	rdma_destroy_id(l->id);
	rdma_destroy_id(l->listen);
}

/* --- threads --- */

int stat_of(const pid_t *thread)
{
	char path[64];
	pid_t tid;

	while (!(tid = __atomic_load_n(thread, __ATOMIC_ACQUIRE)))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

void until_asleep_or(int stat, const int *done)
{
	char line[64] = "";

	while (!strstr(line, ") S ") && !(done && __atomic_load_n(done, __ATOMIC_ACQUIRE)))
		if (pread(stat, line, sizeof(line) - 1, 0) <= 0)
			break; /* it has ended */
	if (stat >= 0)
		want_eq(close(stat), 0);
}

void until_asleep(const pid_t *thread)
{
	until_asleep_or(stat_of(thread), NULL);
}
