// SPDX-License-Identifier: MIT
#include "interop/talk.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE = 60000, TRIES = 600 };

void talk_same(const char *what, uint64_t got, uint64_t want)
{
	if (got != want)
		fail("%s is %llu (0x%llx), not %llu (0x%llx)", what, (unsigned long long)got,
		     (unsigned long long)got, (unsigned long long)want, (unsigned long long)want);
}

void talk_connect_ep(struct talk *t, struct peer_ep *ep)
{
	ep->mine.va = (uintptr_t)t->mem;
	ep->mine.rkey = t->mr->rkey;
	peer_ep_swap(t->fd, ep);
	peer_connect(ep, &t->o);
	peer_sync(t->fd);
}

void talk_connect(struct talk *t)
{
	peer_ep_create(&t->dev, &t->o, &t->ep);
	talk_connect_ep(t, &t->ep);
}

/* Together: a side that still has a request in the air needs the other's answer. */
void talk_end(struct talk *t)
{
	peer_sync(t->fd);
	peer_ep_destroy(&t->ep);
}

struct ibv_send_wr talk_rdma(const struct talk *t, enum ibv_wr_opcode opcode, size_t to)
{
	struct ibv_send_wr wr = { .opcode = opcode };

	wr.wr.rdma.remote_addr = t->ep.theirs.va + to;
	wr.wr.rdma.rkey = t->ep.theirs.rkey;
	return wr;
}

void talk_post(struct talk *t, struct ibv_send_wr wr, size_t at, size_t len)
{
	struct ibv_sge sg = { (uintptr_t)t->mem + at, (uint32_t)len, t->mr->lkey };
	struct ibv_send_wr *bad;

	wr.sg_list = &sg;
	wr.num_sge = len > 0;
	wr.send_flags |= IBV_SEND_SIGNALED;
	errno = ibv_post_send(t->ep.qp, &wr, &bad);
	if (errno)
		die("ibv_post_send");
}

struct ibv_wc talk_wc(struct talk *t)
{
	struct ibv_wc wc;

	if (!peer_poll(t->ep.scq, &wc, PATIENCE))
		fail("no completion");
	return wc;
}

enum ibv_wc_status talk_do(struct talk *t, struct ibv_send_wr wr, size_t at, size_t len)
{
	talk_post(t, wr, at, len);
	return talk_wc(t).status;
}

void talk_ok(struct talk *t, struct ibv_send_wr wr, size_t at, size_t len)
{
	talk_same("the request's status", talk_do(t, wr, at, len), IBV_WC_SUCCESS);
}

void talk_recv(struct talk *t, unsigned int slot, size_t len)
{
	size_t at = TALK_RECV + (size_t)slot * TALK_SLOT;
	struct ibv_sge sg = { (uintptr_t)t->mem + at, (uint32_t)len, t->mr->lkey };

	peer_recv(&t->ep, slot, &sg, 1);
}

struct ibv_wc talk_received(struct talk *t)
{
	struct ibv_wc wc = talk_wc(t);

	talk_same("the receive's status", wc.status, IBV_WC_SUCCESS);
	if (!(wc.opcode & IBV_WC_RECV))
		fail("not a receive: opcode %d", wc.opcode);
	return wc;
}

void talk_check(const struct talk *t, size_t at, size_t len, uint64_t seed)
{
	size_t good = pattern_check(t->mem + at, len, seed, 0);

	if (good != len)
		fail("byte %zu of %zu is wrong", good, len);
}

static int listen_once(const char *port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(atoi(port)) };
	int one = 1, s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(s, (void *)&a, sizeof(a)) || listen(s, 1))
		die("listen");
	fd = accept(s, NULL, NULL);
	if (fd < 0)
		die("accept");
	close(s);
	return fd;
}

/* The other side may not listen yet, which nothing tells but a refusal. */
static int reach(const char *address, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };

	inet_pton(AF_INET, address, &a.sin_addr);
	for (int i = 0; i < TRIES; i++) {
		int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (s < 0)
			die("socket");
		if (!connect(s, (void *)&a, sizeof(a)))
			return s;
		if (errno != ECONNREFUSED)
			die("connect");
		close(s);
		usleep(100000);
	}
	die("connect");
	return -1;
}

static void fill_sizes(struct talk *t)
{
	const size_t m = t->mtu, sizes[TALK_SIZES] = { 0, 1,	 2,	4, 5,	  63,	    m - 1,
						       m, m + 1, 2 * m, 3, 40000, 3 * m + 5 };

	memcpy(t->sizes, sizes, sizeof(sizes));
}

static void begin(struct talk *t, const struct talk_case *c, int mtu)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

	t->mtu = (size_t)mtu;
	t->o = (struct peer_opts){
		.type = c->type, .cap = { 64, 64, 4, 4, 64 }, .timeout = 16, .mtu = IBV_MTU_256
	};
	for (; mtu > 256; mtu /= 2)
		t->o.mtu++;
	fill_sizes(t);
	peer_open(&t->dev);
	t->mem = peer_memory(TALK_BYTES, false);
	t->mr = ibv_reg_mr(t->dev.pd, t->mem, TALK_BYTES, rights);
	if (!t->mr)
		die("ibv_reg_mr");
	t->is_rxe = !strncmp(ibv_get_device_name(t->dev.ctx->device), "rxe", 3);
}

static const struct talk_case *find(const char *name)
{
	const struct talk_case *lists[] = { talk_data, talk_ud, talk_ends };

	for (size_t i = 0; i < 3; i++)
		for (const struct talk_case *c = lists[i]; c->name; c++)
			if (!strcmp(c->name, name))
				return c;
	fail("no case %s", name);
}

int main(int argc, char **argv)
{
	const struct talk_case *c;
	struct talk t = { .asks = argc == 6 };

	if (argc != 5 && argc != 6)
		fail("usage: talk CASE GID-INDEX MTU PORT [ADDRESS]");
	setvbuf(stdout, NULL, _IOLBF, 0);
	c = find(argv[1]);
	peer_gid_index = (uint8_t)atoi(argv[2]);
	begin(&t, c, atoi(argv[3]));
	t.fd = t.asks ? reach(argv[5], argv[4]) : listen_once(argv[4]);
	peer_note("%s, the side that %s", c->name, t.asks ? "asks" : "serves");
	(t.asks ? c->ask : c->serve)(&t);
	ibv_dereg_mr(t.mr);
	peer_close(&t.dev);
	return 0;
}
