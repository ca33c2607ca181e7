// SPDX-License-Identifier: MIT
#include "meet.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int connected(int port, bool client)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, got;

	if (fd < 0)
		die("socket");
	if (client) {
		if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
			die("connect");
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 1))
		die("listen");
	got = accept(fd, NULL, NULL);
	if (got < 0)
		die("accept");
	close(fd);
	return got;
}

static void create(struct meeting *m, const struct peer_opts *opts)
{
	struct ibv_qp_init_attr attr = { .qp_type = opts->type, .cap = opts->cap };
	int depth = (int)(opts->cap.max_send_wr + opts->cap.max_recv_wr);

	m->ep.scq = m->ep.rcq = ibv_create_cq(m->dev.ctx, depth, NULL, m->channel, 0);
	if (!m->ep.scq)
		die("ibv_create_cq");
	if (m->channel && ibv_req_notify_cq(m->ep.scq, 0))
		die("ibv_req_notify_cq");
	attr.send_cq = attr.recv_cq = m->ep.scq;
	m->ep.qp = ibv_create_qp(m->dev.pd, &attr);
	if (!m->ep.qp)
		die("ibv_create_qp");
	m->ep.mine = (struct peer_addr){ .qpn = m->ep.qp->qp_num, .gid = m->dev.gid };
}

void meet(struct meeting *m, int port, bool client, unsigned int depth, bool events)
{
	struct peer_opts opts = { .type = IBV_QPT_RC,
				  .cap = { .max_send_wr = depth,
					   .max_recv_wr = depth,
					   .max_send_sge = 1,
					   .max_recv_sge = 1 } };

	m->client = client;
	peer_open(&m->dev);
	m->channel = events ? ibv_create_comp_channel(m->dev.ctx) : NULL;
	if (events && !m->channel)
		die("ibv_create_comp_channel");
	create(m, &opts);
	m->fd = connected(port, client);
	peer_ep_swap(m->fd, &m->ep);
	peer_connect(&m->ep, &opts);
	peer_sync(m->fd);
}

struct ibv_mr *meet_memory(struct meeting *m, void *buf, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(m->dev.pd, buf, len,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ);

	if (!mr)
		die("ibv_reg_mr");
	m->ep.mine.va = (uintptr_t)buf;
	m->ep.mine.rkey = mr->rkey;
	peer_ep_swap(m->fd, &m->ep);
	return mr;
}

void meet_end(struct meeting *m, struct ibv_mr *mr)
{
	peer_sync(m->fd);
	peer_ep_destroy(&m->ep);
	if (m->channel && ibv_destroy_comp_channel(m->channel))
		die("ibv_destroy_comp_channel");
	if (ibv_dereg_mr(mr))
		die("ibv_dereg_mr");
	peer_close(&m->dev);
	close(m->fd);
}

double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double percentile(double *values, size_t n, double percent)
{
	qsort(values, n, sizeof(*values), ascending);
	return values[(size_t)((n - 1) * percent / 100)];
}
