// SPDX-License-Identifier: MIT
/* SEND there and SEND back, each round timed by itself: rounds event|poll COUNT PORT [HOST]. The
 * client prints p50 and p99 in microseconds and the total in seconds. */
#include "meet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE   64
#define POSTED 16

static struct meeting m;
static struct ibv_mr *mr;
static uint8_t buf[2 * SIZE];

static void receive(void)
{
	struct ibv_sge sge = { (uintptr_t)buf, SIZE, mr->lkey };

	peer_recv(&m.ep, 0, &sge, 1);
}

static void send_one(void)
{
	struct ibv_sge sge = { (uintptr_t)(buf + SIZE), SIZE, mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;

	wr.send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(m.ep.qp, &wr, &bad))
		die("ibv_post_send");
}

/* The channel's next event, acknowledged, and the CQ armed again. */
static void next_event(void)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(m.channel, &cq, &context))
		die("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		die("ibv_req_notify_cq");
}

/* Until a message came; the completions of our own are taken on the way. */
static void await_message(void)
{
	struct ibv_wc wc;

	for (;;) {
		int n = ibv_poll_cq(m.ep.rcq, 1, &wc);

		if (n < 0 || (n && wc.status))
			fail("completion: %s", n < 0 ? strerror(-n) : ibv_wc_status_str(wc.status));
		if (n && wc.opcode == IBV_WC_RECV)
			break;
		if (!n && m.channel)
			next_event();
	}
	receive();
}

static void round_trip(void)
{
	if (!m.client)
		await_message();
	send_one();
	if (m.client)
		await_message();
}

static void report(size_t count)
{
	double *took = calloc(count, sizeof(*took)), begin = seconds(), total;

	if (!took)
		die("calloc");
	for (size_t i = 0; i < count; i++) {
		double start = seconds();

		round_trip();
		took[i] = (seconds() - start) * 1e6;
	}
	total = seconds() - begin;
	if (m.client)
		printf("p50 %.2f us p99 %.2f us total %.3f s\n", percentile(took, count, 50),
		       percentile(took, count, 99), total);
	free(took);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		fail("usage: rounds event|poll COUNT PORT [HOST]");
	meet(&m, atoi(argv[3]), argc > 4, POSTED, !strcmp(argv[1], "event"));
	mr = meet_memory(&m, buf, sizeof(buf));
	for (int i = 0; i < POSTED; i++)
		receive();
	peer_sync(m.fd);
	report(strtoul(argv[2], NULL, 0));
	meet_end(&m, mr);
	return 0;
}
