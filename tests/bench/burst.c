// SPDX-License-Identifier: MIT
/* SENDs of 64 bytes over N RC queue pairs in turn, one post after the other: burst QPS COUNT PORT
 * [HOST]. The client prints millions of messages a second. */
#include "meet.h"
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 64, DEEP = 128, POSTED_MOST = 1 << 16, BATCH = 32 };

static struct meeting m;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct peer_ep *eps;
static uint8_t buf[SIZE];
static unsigned int qps, depth; /* depth: messages of one QP that are posted and not completed */

/* The meeting's own queue pair carries the numbers of the others. */
static void connect_all(void)
{
	struct peer_opts opts = { .type = IBV_QPT_RC,
				  .cap = { .max_send_wr = depth,
					   .max_recv_wr = depth,
					   .max_send_sge = 1,
					   .max_recv_sge = 1 } };
	struct ibv_qp_init_attr attr = { .qp_type = opts.type, .cap = opts.cap };

	eps = calloc(qps, sizeof(*eps));
	cq = ibv_create_cq(m.dev.ctx, (int)(qps * depth), NULL, NULL, 0);
	if (!eps || !cq)
		die("ibv_create_cq");
	attr.send_cq = attr.recv_cq = cq;
	for (unsigned int i = 0; i < qps; i++) {
		eps[i].qp = ibv_create_qp(m.dev.pd, &attr);
		if (!eps[i].qp)
			die("ibv_create_qp");
		eps[i].mine = (struct peer_addr){ .qpn = eps[i].qp->qp_num, .gid = m.dev.gid };
		peer_ep_swap(m.fd, &eps[i]);
		peer_connect(&eps[i], &opts);
	}
}

static void receive(unsigned int i)
{
	struct ibv_sge sge = { (uintptr_t)buf, SIZE, mr->lkey };

	peer_recv(&eps[i], i, &sge, 1);
}

static void send_one(unsigned int i)
{
	struct ibv_sge sge = { (uintptr_t)buf, SIZE, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = i,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;

	wr.send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(eps[i].qp, &wr, &bad))
		die("ibv_post_send");
}

/* Until @count are completed. @again: one more of them on the same QP; at most @more in all. */
static void work(void (*again)(unsigned int i), size_t count, size_t more)
{
	struct ibv_wc wc[BATCH];

	while (count) {
		int n = ibv_poll_cq(cq, BATCH, wc);

		if (n < 0)
			fail("ibv_poll_cq: %d", n);
		for (int i = 0; i < n; i++) {
			if (wc[i].status)
				fail("completion: %s", ibv_wc_status_str(wc[i].status));
			if (more) {
				again((unsigned int)wc[i].wr_id);
				more--;
			}
		}
		count -= (size_t)n;
	}
}

static void run(size_t count)
{
	void (*step)(unsigned int i) = m.client ? send_one : receive;
	size_t first = (size_t)qps * depth;
	double begin;

	if (!m.client)
		for (size_t i = 0; i < first; i++)
			receive((unsigned int)(i % qps));
	peer_sync(m.fd);
	begin = seconds();
	if (m.client)
		for (size_t i = 0; i < first; i++)
			send_one((unsigned int)(i % qps));
	work(step, count, m.client ? count - first : count);
	if (m.client)
		printf("%.4f M/s\n", (double)count / (seconds() - begin) / 1e6);
	peer_sync(m.fd);
}

static void end_all(void)
{
	for (unsigned int i = 0; i < qps; i++)
		if (ibv_destroy_qp(eps[i].qp))
			die("ibv_destroy_qp");
	if (ibv_destroy_cq(cq))
		die("ibv_destroy_cq");
	free(eps);
}

int main(int argc, char **argv)
{
	size_t count = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;

	qps = argc > 3 ? (unsigned int)strtoul(argv[1], NULL, 10) : 0;
	depth = qps ? POSTED_MOST / qps : 0;
	depth = depth > DEEP ? DEEP : depth;
	if (!depth || count < (size_t)qps * depth)
		fail("usage: burst QPS COUNT PORT [HOST]; COUNT: at least what QPS have posted");
	meet(&m, atoi(argv[3]), argc > 4, 1, false);
	mr = meet_memory(&m, buf, sizeof(buf));
	connect_all();
	run(count);
	end_all();
	meet_end(&m, mr);
	return 0;
}
