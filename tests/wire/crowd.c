// SPDX-License-Identifier: MIT
/* Many pairs of processes that poll, one of each pair on each host.
 *
 *	crowd PAIRS PORT               receives, by PAIRS processes; says "listening"
 *	crowd PAIRS PORT HOST SECONDS  sends: as many, which begin at the same instant
 *
 * Each connection is RC, timeout 14, retry_cnt 7: SENDs of 4 KiB, 16 on their way, every byte
 * checked. The sender prints "pairs P messages a second M gap S first F failed N repeated R": the
 * sum of all, the longest time in which a pair got no completion, how many connections ended in an
 * error, and the packets that were sent more than once, as a share of the messages. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "udp/udp_counts.h"
#include "util/clock.h"
#include "verbs/peer.h"

enum { SIZE = 4096, WORDS = SIZE / 8, DEPTH = 16, POSTED = 64, LOOKS = 1000 };
#define SECOND UINT64_C(1000000000)

struct result {
	uint64_t messages, all; /* that completed in time; and until the end */
	uint64_t gap, first; /* ns */
	uint64_t packets; /* sent */
	uint32_t status, vendor;
	bool done;
};

static struct {
	unsigned int pairs;
	const char *host; /* NULL: receives */
	uint64_t ns;
	struct result *result;
	int ready[2], go[2]; /* pipes */
} me;

struct end {
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint64_t *memory;
	int fd;
};

/* --- connecting --- */

static const struct peer_opts opts = {
	.type = IBV_QPT_RC,
	.cap = { .max_send_wr = DEPTH, .max_recv_wr = POSTED, .max_send_sge = 1, .max_recv_sge = 1 }
};

static void end_open(struct end *e, int fd)
{
	size_t bytes = (size_t)POSTED * SIZE;

	*e = (struct end){ .fd = fd, .memory = (void *)peer_memory(bytes, false) };
	peer_open(&e->dev);
	e->mr = ibv_reg_mr(e->dev.pd, e->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!e->mr)
		die("ibv_reg_mr");
	peer_ep_create(&e->dev, &opts, &e->ep);
	peer_ep_swap(fd, &e->ep);
	peer_connect(&e->ep, &opts);
}

static int tcp(const char *host, const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		die("socket");
	if (host && inet_pton(AF_INET, host, &at.sin_addr) != 1)
		fail("%s is no address", host);
	if (host && connect(fd, (struct sockaddr *)&at, sizeof(at)))
		die("connect");
	if (!host && (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, SOMAXCONN)))
		die("listen");
	return fd;
}

static struct ibv_sge place(const struct end *e, uint64_t i)
{
	return (struct ibv_sge){ (uintptr_t)(e->memory + i * WORDS), SIZE, e->mr->lkey };
}

/* --- receiving --- */

static void post_recv(struct end *e, uint64_t i)
{
	struct ibv_sge sge = place(e, i);

	peer_recv(&e->ep, i, &sge, 1);
}

static void check(const struct end *e, const struct ibv_wc *wc, uint64_t number)
{
	const uint64_t *at = e->memory + wc->wr_id * WORDS;

	if (wc->byte_len != SIZE)
		fail("message %llu has %u B", (unsigned long long)number, wc->byte_len);
	for (unsigned int i = 0; i < WORDS; i++)
		if (at[i] != number * WORDS + i)
			fail("message %llu: word %u is wrong", (unsigned long long)number, i);
}

/* The sender ends the TCP connection when it is done. */
static bool sender_done(const struct end *e)
{
	char byte;

	return recv(e->fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void receive(struct end *e)
{
	uint64_t number = 0;
	struct ibv_wc wc;

	for (uint64_t i = 0; i < POSTED; i++)
		post_recv(e, i);
	peer_sync(e->fd);
	for (unsigned int looks = 0; looks % LOOKS != LOOKS - 1 || !sender_done(e);) {
		int n = ibv_poll_cq(e->ep.rcq, 1, &wc);

		if (n < 0 || (n && wc.status))
			fail("receive: %s", n < 0 ? strerror(-n) : ibv_wc_status_str(wc.status));
		looks++;
		if (!n)
			continue;
		check(e, &wc, number++);
		post_recv(e, wc.wr_id);
		looks = 0;
	}
}

/* --- sending --- */

static void post_send(struct end *e, uint64_t number)
{
	struct ibv_sge sge = place(e, number % DEPTH);
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	uint64_t *at = e->memory + number % DEPTH * WORDS;

	for (unsigned int i = 0; i < WORDS; i++)
		at[i] = number * WORDS + i;
	if (ibv_post_send(e->ep.qp, &wr, &bad))
		die("ibv_post_send");
}

static void completed(struct result *r, uint64_t now, uint64_t *last, bool in_time)
{
	if (now - *last > r->gap)
		r->gap = now - *last;
	r->all++;
	r->messages += in_time;
	*last = now;
}

static void send_all(struct end *e, struct result *r)
{
	uint64_t begin = clock_now(), last = begin, now = begin, posted = 0;
	struct ibv_wc wc[DEPTH];

	while (!r->status && (now - begin < me.ns || posted != r->all)) {
		int n = 0;

		while (now - begin < me.ns && posted - r->all < DEPTH)
			post_send(e, posted++);
		n = ibv_poll_cq(e->ep.scq, DEPTH, wc);
		now = clock_now();
		if (n < 0)
			fail("ibv_poll_cq: %s", strerror(-n));
		for (int i = 0; i < n && !r->status; i++) {
			r->status = wc[i].status;
			r->vendor = wc[i].vendor_err;
			if (!r->all)
				r->first = now - begin;
			completed(r, now, &last, now - begin < me.ns);
		}
	}
	r->done = true;
}

/* --- processes --- */

static void sender(unsigned int i, int fd)
{
	struct udp_counts before = { 0 }, after = { 0 };
	struct result *r = &me.result[i];
	struct end e;
	char byte = 0;

	end_open(&e, fd);
	peer_sync(fd);
	udp_counts_of(getpid(), &before);
	close(me.go[1]);
	if (write(me.ready[1], &byte, 1) != 1 || read(me.go[0], &byte, 1))
		die("pipe");
	send_all(&e, r);
	udp_counts_of(getpid(), &after);
	r->packets = after.sent - before.sent;
}

static void one(unsigned int i, const char *port, int listener)
{
	int fd = me.host ? tcp(me.host, port) : accept(listener, NULL, NULL);
	struct end e;

	if (fd < 0)
		die("accept");
	if (me.host) {
		sender(i, fd);
	} else {
		end_open(&e, fd);
		receive(&e);
	}
	exit(0);
}

/* --- all --- */

static void start_all(const char *port, int listener)
{
	char byte;

	fflush(NULL);
	for (unsigned int i = 0; i < me.pairs; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (!pid)
			one(i, port, listener);
	}
	for (unsigned int i = 0; me.host && i < me.pairs; i++)
		if (read(me.ready[0], &byte, 1) != 1)
			die("read");
	close(me.go[1]);
}

static int wait_all(void)
{
	int failed = 0;

	for (unsigned int i = 0; i < me.pairs; i++)
		failed |= peer_wait(-1);
	return failed;
}

static void report(void)
{
	uint64_t messages = 0, all = 0, packets = 0, gap = 0, first = 0;
	unsigned int failed = 0;
	struct rusage use;

	for (struct result *r = me.result; r < me.result + me.pairs; r++) {
		messages += r->messages;
		all += r->all;
		packets += r->packets;
		gap = r->gap > gap ? r->gap : gap;
		first = r->first > first ? r->first : first;
		if (r->status || !r->done) {
			failed++;
			fprintf(stderr,
				"pair %u: %s, vendor_err 0x%x, after %llu messages, %.3f s\n",
				(unsigned int)(r - me.result),
				ibv_wc_status_str((enum ibv_wc_status)r->status), r->vendor,
				(unsigned long long)r->all - 1, (double)r->gap * 1e-9);
		}
	}
	getrusage(RUSAGE_CHILDREN, &use);
	printf("pairs %u messages a second %.0f gap %.3f first %.3f failed %u repeated %.4f\n",
	       me.pairs, (double)messages * 1e9 / (double)me.ns, (double)gap * 1e-9,
	       (double)first * 1e-9, failed,
	       all ? ((double)packets - (double)all) / (double)all : 0);
	printf("# user %ld.%02ld sys %ld.%02ld switches %ld + %ld\n", use.ru_utime.tv_sec,
	       use.ru_utime.tv_usec / 10000, use.ru_stime.tv_sec, use.ru_stime.tv_usec / 10000,
	       use.ru_nvcsw, use.ru_nivcsw);
}

int main(int argc, char **argv)
{
	int listener = -1, failed;

	if (argc != 3 && argc != 5)
		fail("usage: crowd PAIRS PORT [HOST SECONDS]");
	me.pairs = (unsigned int)atoi(argv[1]);
	if (argc == 5) {
		me.host = argv[3];
		me.ns = (uint64_t)(atof(argv[4]) * 1e9);
	} else {
		listener = tcp(NULL, argv[2]);
		puts("listening");
	}
	me.result = (void *)peer_memory(me.pairs * sizeof(*me.result), true);
	if (pipe(me.ready) || pipe(me.go))
		die("pipe");
	start_all(argv[2], listener);
	failed = wait_all();
	if (me.host)
		report();
	return failed;
}
