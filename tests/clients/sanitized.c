// SPDX-License-Identifier: MIT
/* What users build with -fsanitize=address or =thread, and run on the libraries as they are:
 *   sanitized HOW                  both ends in this process
 *   sanitized HOW -p PORT [HOST]   two processes, over a socket
 * Right programs print "done", and a sanitizer has nothing to say about them. A wrong one makes a
 * mistake of its own after the same traffic, which the sanitizer must find. */
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/meet.h"
#include "mlx5dv/hand.h"

enum { SIZE = 10000, SMALL = 64, TURNS = 300, WRS_EACH = 4, HEARD = 1, SAID = 2 };

/* One end: it receives into the first half of its memory and sends out of the second one. */
struct end {
	struct peer_dev *dev;
	struct peer_ep *ep;
	struct ibv_comp_channel *channel; /* of its CQ; NULL: it polls */
	uint8_t *memory; /* of malloc(): a byte too many is seen */
	struct ibv_mr *memory_mr;
	unsigned int got; /* HEARD, SAID: completions that came and were not awaited yet */
	bool begins, inlines; /* inlines: its QP takes SMALL bytes inline */
};

static void *kept[8]; /* what a program leaves behind, it can still reach */
static size_t kept_count;

static size_t length_of(uint32_t turn)
{
	return turn % 3 == 1 ? turn % SMALL + 1 : turn * 37 % SIZE + 1;
}

static void give_memory(struct end *e)
{
	e->memory = malloc(2 * (size_t)SIZE);
	want(e->memory);
	e->memory_mr = ibv_reg_mr(e->dev->pd, e->memory, 2 * (size_t)SIZE,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					  IBV_ACCESS_REMOTE_READ);
	want(e->memory_mr);
	e->ep->mine.va = (uintptr_t)e->memory;
	e->ep->mine.rkey = e->memory_mr->rkey;
}

static void take_memory(struct end *e)
{
	want_eq(ibv_dereg_mr(e->memory_mr), 0);
	free(e->memory);
}

static void sleep_on(struct end *e)
{
	struct ibv_cq *cq;
	void *own;

	want_eq(ibv_get_cq_event(e->channel, &cq, &own), 0);
	ibv_ack_cq_events(cq, 1);
	want_eq(ibv_req_notify_cq(cq, 0), 0);
}

static void await(struct end *e, unsigned int what)
{
	struct ibv_wc wc;
	int n;

	while (!(e->got & what)) {
		n = ibv_poll_cq(e->ep->scq, 1, &wc);
		want(n >= 0);
		if (!n && e->channel)
			sleep_on(e);
		if (!n)
			continue;
		want_eq(wc.status, IBV_WC_SUCCESS);
		e->got |= wc.opcode & IBV_WC_RECV ? HEARD : SAID;
	}
	e->got &= ~what;
}

static void post(struct end *e, enum ibv_wr_opcode opcode, struct ibv_sge sge, size_t to)
{
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;

	wr.send_flags = IBV_SEND_SIGNALED;
	if (e->inlines && opcode == IBV_WR_SEND && sge.length <= SMALL)
		wr.send_flags |= IBV_SEND_INLINE;
	wr.wr.rdma.remote_addr = e->ep->theirs.va + to;
	wr.wr.rdma.rkey = e->ep->theirs.rkey;
	want_eq(ibv_post_send(e->ep->qp, &wr, &bad), 0);
	await(e, SAID);
}

static void listen_for_next(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->memory, SIZE, e->memory_mr->lkey };

	peer_recv(e->ep, 0, &sge, 1);
}

static void hear(struct end *e, uint32_t turn)
{
	await(e, HEARD);
	want_eq(pattern_check(e->memory, length_of(turn), turn, 0), length_of(turn));
}

/* What a peer that has spoken has sent stays in its memory until it hears of us. */
static void read_again(struct end *e, uint32_t turn)
{
	struct ibv_sge sge = { (uintptr_t)e->memory, SIZE, e->memory_mr->lkey };

	memset(e->memory, 0, SIZE);
	post(e, IBV_WR_RDMA_READ, sge, SIZE);
	want_eq(pattern_check(e->memory, length_of(turn), turn, 0), length_of(turn));
}

static void say(struct end *e, uint32_t turn)
{
	struct ibv_sge sge = { (uintptr_t)e->memory + SIZE, (uint32_t)length_of(turn),
			       e->memory_mr->lkey };

	listen_for_next(e);
	pattern_fill(e->memory + SIZE, sge.length, turn, 0);
	post(e, turn % 3 == 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, sge, 0);
}

/* Objects come and go beside the traffic of other threads. */
static void make_and_end(struct end *e)
{
	uint8_t *some = malloc(SMALL);
	struct ibv_mr *of_some = ibv_reg_mr(e->dev->pd, some, SMALL, IBV_ACCESS_LOCAL_WRITE);
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct peer_ep ep;

	want(some && of_some);
	peer_ep_create(e->dev, &o, &ep);
	peer_ep_destroy(&ep);
	want_eq(ibv_dereg_mr(of_some), 0);
	free(some);
}

/* Turns with odd numbers are those of the end that does not begin. */
static void talk(struct end *e)
{
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		if ((turn % 2 == 0) != e->begins) {
			hear(e, turn);
			continue;
		}
		if (turn)
			read_again(e, turn - 1);
		say(e, turn);
		if (turn % 16 < 2)
			make_and_end(e);
	}
}

static void *talking(void *end)
{
	talk(end);
	return NULL;
}

static const struct peer_opts opts = { .type = IBV_QPT_RC,
				       .cap = { WRS_EACH, WRS_EACH, 1, 1, SMALL } };
static struct peer_dev here;
static struct peer_ep eps[2];
static struct end ends[2] = { { .dev = &here, .ep = &eps[0], .begins = true, .inlines = true },
			      { .dev = &here, .ep = &eps[1], .inlines = true } };

static void begin(void)
{
	peer_open(&here);
	peer_pair(&here, &opts, &eps[0], &eps[1]);
	for (int i = 0; i < 2; i++)
		give_memory(&ends[i]);
	for (int i = 0; i < 2; i++) {
		eps[i].theirs.va = eps[!i].mine.va;
		eps[i].theirs.rkey = eps[!i].mine.rkey;
	}
	listen_for_next(&ends[1]);
}

static void both_talk(void)
{
	pthread_t other;

	want_eq(pthread_create(&other, NULL, talking, &ends[1]), 0);
	talk(&ends[0]);
	want_eq(pthread_join(other, NULL), 0);
}

static void end(void)
{
	for (int i = 0; i < 2; i++) {
		peer_ep_destroy(&eps[i]);
		take_memory(&ends[i]);
	}
	peer_close(&here);
}

static void threads(void)
{
	begin();
	both_talk();
	end();
}

static void keep(void *object)
{
	kept[kept_count++] = object;
}

/* A program that ends nothing has lost nothing: it can still reach all that it made. */
static void left(void)
{
	begin();
	both_talk();
	for (int i = 0; i < 2; i++) {
		keep(eps[i].qp);
		keep(eps[i].scq);
	}
	keep(here.ctx);
}

static int leave(int fd, void *arg)
{
	(void)fd;
	(void)arg;
	want_eq(pattern_check(ends[0].memory, length_of(TURNS - 1), TURNS - 1, 0),
		length_of(TURNS - 1));
	return 0;
}

static void in_child(int (*fn)(int fd, void *arg))
{
	int fd;

	want_eq(peer_wait(peer_fork(fn, NULL, &fd)), 0);
	close(fd);
}

/* ThreadSanitizer lets no child of a process with threads make others. */
#ifndef __SANITIZE_THREAD__
static int open_anew(int fd, void *arg)
{
	(void)fd;
	(void)arg;
	threads();
	return 0;
}
#endif

static void forks(void)
{
	begin();
	both_talk();
	in_child(leave);
#ifndef __SANITIZE_THREAD__
	in_child(open_anew);
#endif
	both_talk();
	end();
}

static void rings(void)
{
	open_memory();
	connected(IBV_QPT_RC, NULL);
	hand_messages(TURNS);
	peer_ep_destroy(&a.ep);
	peer_ep_destroy(&b.ep);
	want_eq(ibv_destroy_comp_channel(a.channel), 0);
	want_eq(ibv_destroy_comp_channel(b.channel), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	peer_close(&dev);
}

static char cm_port[8];

static struct rdma_cm_id *cm_end(int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *found;
	struct ibv_qp_init_attr attr = { .cap = opts.cap, .sq_sig_all = 1 };
	struct rdma_cm_id *id;

	want_eq(rdma_getaddrinfo("127.0.0.1", cm_port, &hints, &found), 0);
	want_eq(rdma_create_ep(&id, found, NULL, &attr), 0);
	rdma_freeaddrinfo(found);
	return id;
}

/* One message each way over @id. @connects: it has yet to be connected. */
static void cm_talk(struct rdma_cm_id *id, bool connects)
{
	uint8_t *bytes = calloc(2, SMALL);
	struct ibv_mr *of_bytes = rdma_reg_msgs(id, bytes, 2 * (size_t)SMALL);
	struct ibv_wc wc;

	want(bytes && of_bytes);
	want_eq(rdma_post_recv(id, NULL, bytes, SMALL, of_bytes), 0);
	want_eq(connects ? rdma_connect(id, NULL) : rdma_accept(id, NULL), 0);
	pattern_fill(bytes + SMALL, SMALL, 1, 0);
	want_eq(rdma_post_send(id, NULL, bytes + SMALL, SMALL, of_bytes, 0), 0);
	want_eq(rdma_get_recv_comp(id, &wc), 1);
	want_eq(rdma_get_send_comp(id, &wc), 1);
	want_eq(pattern_check(bytes, SMALL, 1, 0), SMALL);
	rdma_disconnect(id);
	want_eq(rdma_dereg_mr(of_bytes), 0);
	free(bytes);
	rdma_destroy_ep(id);
}

static void *cm_client(void *arg)
{
	cm_talk(cm_end(0), true);
	return arg;
}

static void connections(void)
{
	struct rdma_cm_id *listener, *id;
	pthread_t client;

	snprintf(cm_port, sizeof(cm_port), "%d", 7471);
	listener = cm_end(RAI_PASSIVE);
	want_eq(rdma_listen(listener, 8), 0);
	for (int i = 0; i < 10; i++) {
		want_eq(pthread_create(&client, NULL, cm_client, NULL), 0);
		want_eq(rdma_get_request(listener, &id), 0);
		cm_talk(id, false);
		want_eq(pthread_join(client, NULL), 0);
	}
	rdma_destroy_ep(listener);
}

static void past(void)
{
	volatile uint8_t *memory;

	begin();
	both_talk();
	memory = ends[0].memory;
	(void)memory[2 * SIZE];
}

static void freed(void)
{
	volatile uint8_t *memory;

	begin();
	both_talk();
	memory = ends[0].memory;
	end();
	(void)memory[0];
}

/* More than one: registers and the stack may still have the last one's address. */
static void lost(void)
{
	threads();
	for (int i = 0; i < 10; i++)
		*(void *volatile *)kept = malloc(SMALL);
	kept[0] = NULL;
}

static void null(void)
{
	rings();
	*(volatile int *)kept[0] = 1; /* nothing was kept */
}

static int counted;

static void *counts(void *arg)
{
	for (int i = 0; i < TURNS; i++)
		counted++;
	return arg;
}

static void race(void)
{
	pthread_t other;

	begin();
	both_talk();
	want_eq(pthread_create(&other, NULL, counts, NULL), 0);
	counts(NULL);
	want_eq(pthread_join(other, NULL), 0);
}

static void between(int port, bool client, bool events)
{
	struct meeting m;
	struct end e = { .dev = &m.dev, .ep = &m.ep, .begins = client };

	meet(&m, port, client, WRS_EACH, events);
	e.channel = m.channel;
	give_memory(&e);
	peer_ep_swap(m.fd, &m.ep);
	if (!client)
		listen_for_next(&e);
	peer_sync(m.fd);
	talk(&e);
	meet_end(&m, e.memory_mr);
	free(e.memory);
}

static const struct {
	const char *name;
	void (*run)(void);
} alone[] = { { "threads", threads }, { "left", left },
	      { "forks", forks },     { "rings", rings },
	      { "past", past },	      { "freed", freed },
	      { "lost", lost },	      { "null", null },
	      { "race", race },	      { "connections", connections } };

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	if (argc > 3)
		between((int)strtol(argv[3], NULL, 10), argc > 4, !strcmp(how, "waits"));
	for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]) && argc == 2; i++)
		if (!strcmp(alone[i].name, how))
			alone[i].run();
	puts("done");
	return 0;
}
