// SPDX-License-Identifier: MIT
/* memory created|connected|used COUNT: makes COUNT RC queue pairs of 16 work requests of one SGE
 * each way, without inline data, that share a CQ, and prints the bytes of memory that one of them
 * takes: created; connected to another one of this process, in RTS; or when each has sent and
 * received 32 messages, too. It is what the process has mapped and touched (Pss): the pages by
 * which its peers see the queue pair count, the kernel's memory does not. */
#include "verbs/peer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 16, FIRST = 2 /* what happens once, happens for these */ };

static const struct peer_opts opts = { .type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 0 } };
static struct peer_dev dev;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint64_t word;

static double touched(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	unsigned long kib = 0;
	char line[128];

	if (!f)
		die("/proc/self/smaps_rollup");
	while (!kib && fgets(line, sizeof(line), f))
		sscanf(line, "Pss: %lu kB", &kib);
	fclose(f);
	if (!kib)
		fail("/proc/self/smaps_rollup has no Pss");
	return kib * 1024.0;
}

static void create(struct peer_ep *ep)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = opts.type, .cap = opts.cap, .send_cq = cq, .recv_cq = cq
	};

	ep->qp = ibv_create_qp(dev.pd, &attr);
	if (!ep->qp)
		die("ibv_create_qp");
	ep->mine = (struct peer_addr){ .qpn = ep->qp->qp_num, .gid = dev.gid };
}

static void send_word(struct peer_ep *from, struct peer_ep *to)
{
	struct ibv_sge sge = { (uintptr_t)&word, sizeof(word), mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	peer_recv(to, 0, &sge, 1);
	if (ibv_post_send(from->qp, &wr, &bad))
		die("ibv_post_send");
	peer_poll_ok(cq, &wc);
	peer_poll_ok(cq, &wc);
}

static void connect_them(struct peer_ep *one, struct peer_ep *other)
{
	one->theirs = other->mine;
	other->theirs = one->mine;
	peer_connect(one, &opts);
	peer_connect(other, &opts);
}

static void make(struct peer_ep *one, struct peer_ep *other, const char *how)
{
	create(one);
	create(other);
	if (!strcmp(how, "created"))
		return;
	connect_them(one, other);
	if (!strcmp(how, "connected"))
		return;
	for (unsigned int i = 0; i < 2 * DEPTH; i++) { /* rings may have more room than asked for */
		send_word(one, other);
		send_word(other, one);
	}
}

static double grown(const char *how, size_t count)
{
	struct peer_ep *all = calloc(FIRST + count, sizeof(*all));
	double before = 0;

	if (!all)
		die("calloc");
	for (size_t i = 0; i < FIRST + count; i++)
		all[i].mine.psn = 1; /* now these pages are there */
	for (size_t i = 0; i < FIRST + count; i += 2) {
		if (i == FIRST)
			before = touched();
		make(&all[i], &all[i + 1], how);
	}
	before = touched() - before;
	for (size_t i = 0; i < FIRST + count; i++)
		if (ibv_destroy_qp(all[i].qp))
			die("ibv_destroy_qp");
	free(all);
	return before / count;
}

int main(int argc, char **argv)
{
	size_t count = argc == 3 ? strtoul(argv[2], NULL, 10) & ~1UL : 0;

	if (!count ||
	    (strcmp(argv[1], "created") && strcmp(argv[1], "connected") && strcmp(argv[1], "used")))
		fail("usage: memory created|connected|used COUNT");
	peer_open(&dev);
	cq = ibv_create_cq(dev.ctx, DEPTH, NULL, NULL, 0);
	mr = ibv_reg_mr(dev.pd, &word, sizeof(word), IBV_ACCESS_LOCAL_WRITE);
	if (!cq || !mr)
		die("ibv_create_cq or ibv_reg_mr");
	printf("%.0f bytes\n", grown(argv[1], count));
	if (ibv_dereg_mr(mr) || ibv_destroy_cq(cq))
		die("end");
	peer_close(&dev);
	return 0;
}
