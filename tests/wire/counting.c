// SPDX-License-Identifier: MIT
/* Numbered messages by UC or UD from a client to a server over a bad network, and what of them
 * arrives: each whole and right, by UC none twice and none out of order, and as many as the rates
 * of the network let through.
 *
 *	counting uc|write|ud [-g GID-INDEX] [-m MTU] [-n MESSAGES] [-s SEED] [-f FAULT=PERCENT]...
 *	         [-l TOOL] -p PORT [ADDRESS]
 *
 * uc: SENDs of UC with immediate. write: WRITEs of UC with immediate. ud: SENDs of UD. The faults
 * are the relay's, for both sides; with ADDRESS it is the client, which sends. -l: the client has
 * `TOOL fault` lose five PSNs of its QP, while it runs.
 *
 * Messages go in batches that fit the receiver's socket. Behind each batch goes a message of RC on
 * the same path: of more packets than the relay can let overtake one, so that when it has arrived,
 * what has not is lost. Nothing here depends on time. */
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "util/rand.h"
#include "verbs/peer.h"

enum {
	MOST_PACKETS = 8, /* of a message */
	BATCH_BYTES = 40 << 10, /* of a batch, roughly: a socket has room for 200 KiB */
	PACKET_COST = 1024, /* the kernel's own, each */
	LEAST = 16,
	RECEIVES = 256, /* more than the packets of a batch, twice */
	GRH = 40,
	FENCE_BYTES = 12 * 256, /* 12 packets: the relay holds one back for 8 at most */
	FENCE_MTU = 256,
	LOSE_FROM = 10, /* the first PSN of five, behind the QP's own first */
	LOSE_TO = 14,
	FIRST_PSN = 0xfffff, /* at most */
};

enum service { BY_SEND, BY_WRITE, BY_UD };

static struct {
	enum service service;
	const char *port, *address, *tool;
	uint32_t mtu, messages;
	uint64_t seed;
	double loss, dup, reorder, corrupt;
} args = { .mtu = 1024, .messages = 1000 };

static struct {
	struct peer_dev dev;
	struct peer_ep ep, fence;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	uint8_t *mem;
	size_t slot; /* bytes for one message */
	int fd; /* TCP: to agree on the rest */
} me;

static uint32_t arrived, twice, next; /* UC: the least number that may still come */
static uint8_t *seen; /* how often each has come */

/* --- what both sides know --- */

static uint32_t length(uint32_t number)
{
	uint64_t x = args.seed ^ (uint64_t)number << 32;
	uint32_t most = args.service == BY_UD ? args.mtu : args.mtu * MOST_PACKETS;
	uint64_t z = rand_mix(&x);

	if (z % 3 == 0) /* a third of them fit one packet */
		most = args.mtu;
	return LEAST + (uint32_t)((z >> 8) % (most - LEAST + 1));
}

static uint32_t packets(uint32_t number)
{
	return (length(number) + args.mtu - 1) / args.mtu;
}

/* The first message that is no longer in the batch of @first. */
static uint32_t batch_end(uint32_t first)
{
	uint32_t n = first, cost = 0;

	while (n < args.messages && cost < BATCH_BYTES) {
		cost += packets(n) * (args.mtu + PACKET_COST);
		n++;
	}
	return n;
}

static size_t slot_of(uint32_t number)
{
	return (number % RECEIVES) * me.slot;
}

/* --- connecting --- */

static int tcp_open(void)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_family = AF_INET,
				  .ai_flags = args.address ? 0 : AI_PASSIVE };
	struct addrinfo *at;
	int fd, one = 1, took;

	if (getaddrinfo(args.address, args.port, &hints, &at))
		fail("%s port %s: no such address", args.address, args.port);
	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (args.address) {
		if (connect(fd, at->ai_addr, at->ai_addrlen))
			die("connect");
		freeaddrinfo(at);
		return fd;
	}
	if (bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 1))
		die("listen");
	freeaddrinfo(at);
	took = accept(fd, NULL, NULL);
	if (took < 0)
		die("accept");
	close(fd);
	return took;
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	enum ibv_mtu code = IBV_MTU_256;

	while (256U << (code - IBV_MTU_256) < bytes)
		code++;
	return code;
}

static void connect_all(void)
{
	static const enum ibv_qp_type type[] = {
		[BY_SEND] = IBV_QPT_UC, [BY_WRITE] = IBV_QPT_UC, [BY_UD] = IBV_QPT_UD
	};
	struct peer_opts o = { .type = type[args.service],
			       .cap = { RECEIVES, RECEIVES, 1, 1, 0 },
			       .mtu = mtu_code(args.mtu) };
	struct peer_opts rc = { .type = IBV_QPT_RC,
				.cap = { 4, 4, 1, 1, 0 },
				.mtu = mtu_code(FENCE_MTU),
				.timeout = 17 /* a process may have no core for seconds */ };
	size_t bytes;

	peer_open(&me.dev);
	me.slot = (size_t)args.mtu * MOST_PACKETS + GRH;
	bytes = RECEIVES * me.slot + FENCE_BYTES;
	me.mem = peer_memory(bytes, false);
	me.mr = ibv_reg_mr(me.dev.pd, me.mem, bytes,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!me.mr)
		die("ibv_reg_mr");
	peer_ep_create(&me.dev, &o, &me.ep);
	peer_ep_create(&me.dev, &rc, &me.fence);
	me.ep.mine.psn = (uint32_t)args.seed & FIRST_PSN;
	me.ep.mine.va = (uintptr_t)me.mem;
	me.ep.mine.rkey = me.mr->rkey;
	peer_ep_swap(me.fd, &me.ep);
	peer_ep_swap(me.fd, &me.fence);
	peer_connect(&me.ep, &o);
	peer_connect(&me.fence, &rc);
	me.ah = peer_ah(&me.dev, &me.ep.theirs);
}

static struct ibv_sge place(size_t at, uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)me.mem + at, len, me.mr->lkey };
}

static struct ibv_sge fence_place(void)
{
	return place(RECEIVES * me.slot, FENCE_BYTES);
}

static void post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (ibv_post_send(qp, wr, &bad))
		fail("ibv_post_send");
}

static void fence_post(uint32_t len)
{
	struct ibv_sge sg = fence_place();
	struct ibv_send_wr wr = {
		.sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};

	sg.length = len;
	post(me.fence.qp, &wr);
}

static void fence_receive(void)
{
	struct ibv_sge sg = fence_place();

	peer_recv(&me.fence, 0, &sg, 1);
}

/* --- the client --- */

static void send_one(uint32_t number)
{
	struct ibv_sge sg = place(slot_of(number), length(number));
	struct ibv_send_wr wr = { .wr_id = number,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = args.service == BY_WRITE ? IBV_WR_RDMA_WRITE_WITH_IMM
								     : IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = htonl(number) };

	pattern_fill(me.mem + slot_of(number), sg.length, args.seed ^ number, 0);
	if (args.service == BY_WRITE) {
		wr.wr.rdma.remote_addr = me.ep.theirs.va + slot_of(number);
		wr.wr.rdma.rkey = me.ep.theirs.rkey;
	} else if (args.service == BY_UD) {
		wr.wr.ud.ah = me.ah;
		wr.wr.ud.remote_qpn = me.ep.theirs.qpn;
		wr.wr.ud.remote_qkey = 0x11111111;
	}
	post(me.ep.qp, &wr);
}

/* Without a shell: what is preloaded for an instrumented library is not for one. */
static void lose_five(void)
{
	char pid[16], rule[128], command[] = "fault";
	char *argv[] = { (char *)args.tool, command, pid, rule, NULL };
	pid_t child;
	int status;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	snprintf(rule, sizeof(rule), "loss=100%%,qp=0x%x,psn=%u-%u", me.ep.mine.qpn,
		 me.ep.mine.psn + LOSE_FROM, me.ep.mine.psn + LOSE_TO);
	if (posix_spawn(&child, args.tool, NULL, NULL, argv, environ) ||
	    waitpid(child, &status, 0) != child || status)
		fail("%s fault %s %s", args.tool, pid, rule);
}

static void client(void)
{
	struct ibv_wc wc;

	if (args.tool)
		lose_five();
	for (uint32_t first = 0; first < args.messages;) {
		uint32_t end = batch_end(first);

		for (uint32_t n = first; n < end; n++)
			send_one(n);
		for (; first < end; first++)
			peer_poll_ok(me.ep.scq, &wc);
		fence_receive();
		fence_post(FENCE_BYTES);
		peer_poll_ok(me.fence.scq, &wc); /* it has arrived, or the answer has, … */
		peer_poll_ok(me.fence.scq, &wc); /* … and the other of the two */
	}
}

/* --- the server --- */

static void receive(uint64_t id)
{
	struct ibv_sge sg = place(id * me.slot, (uint32_t)me.slot);

	peer_recv(&me.ep, id, &sg, args.service == BY_WRITE ? 0 : 1);
}

/* What stands before a datagram: the IP header that it came with. */
static void check_grh(const uint8_t *area, const struct ibv_wc *wc, uint32_t len)
{
	const uint8_t *from = me.ep.theirs.gid.raw, *to = me.ep.mine.gid.raw;
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool v4 = !memcmp(from, mapped, sizeof(mapped));
	const uint8_t *ip = area + (v4 ? 20 : 0);
	uint32_t udp = 8 + 12 + 8 + 4 + (len + 3) / 4 * 4 + 4;
	uint32_t says = v4 ? ip[2] << 8 | ip[3] : ip[4] << 8 | ip[5];
	bool addresses = v4 ? !memcmp(ip + 12, from + 12, 4) && !memcmp(ip + 16, to + 12, 4)
			    : !memcmp(ip + 8, from, 16) && !memcmp(ip + 24, to, 16);

	if (!(wc->wc_flags & IBV_WC_GRH) || wc->src_qp != me.ep.theirs.qpn)
		fail("flags 0x%x, from QP 0x%x", wc->wc_flags, wc->src_qp);
	if (ip[0] != (v4 ? 0x45 : 0x60) && (v4 || ip[0] >> 4 != 6))
		fail("the IP header begins with 0x%x", ip[0]);
	if (ip[v4 ? 9 : 6] != (v4 ? IPPROTO_UDP : 0x1b) && ip[v4 ? 9 : 6] != IPPROTO_UDP)
		fail("the IP header says protocol %u", ip[v4 ? 9 : 6]);
	if (says != (v4 ? 20 + udp : udp) || !addresses)
		fail("the IP header says %u bytes for %u, or other addresses", says, udp);
}

/* One message has come. Receives complete in their order: one that was begun and dropped serves
 * the next message. */
static void take(const struct ibv_wc *wc)
{
	uint32_t number = ntohl(wc->imm_data), grh = args.service == BY_UD ? GRH : 0, len;
	static uint64_t posted_first;
	const uint8_t *at;
	size_t right;

	if (!(wc->wc_flags & IBV_WC_WITH_IMM) || number >= args.messages)
		fail("a message that nobody sent: flags 0x%x, number %u", wc->wc_flags, number);
	peer_note("message %u", number);
	len = length(number);
	if (wc->byte_len != len + grh)
		fail("it has %u bytes, not %u", wc->byte_len, len + grh);
	if (wc->wr_id != posted_first++ % RECEIVES)
		fail("a receive was skipped: %llu", (unsigned long long)wc->wr_id);
	at = me.mem + (args.service == BY_WRITE ? slot_of(number) : wc->wr_id * me.slot);
	if (grh)
		check_grh(at, wc, len);
	right = pattern_check(at + grh, len, args.seed ^ number, 0);
	if (right != len)
		fail("byte %zu of %u is wrong", right, len);
	if (args.service != BY_UD && number < next)
		fail("it comes behind message %u", next - 1);
	next = number + 1;
	twice += seen[number] == 1;
	arrived += !seen[number]++;
	receive(wc->wr_id);
}

static void take_all(void)
{
	struct ibv_wc wc;

	while (peer_poll(me.ep.rcq, &wc, 0)) {
		if (wc.status)
			fail("a receive ended with %s", ibv_wc_status_str(wc.status));
		take(&wc);
	}
}

/* Whether the client has sent all that it will of this batch. */
static bool fence_came(void)
{
	struct ibv_wc wc;

	if (!peer_poll(me.fence.rcq, &wc, 0))
		return false;
	if (wc.status)
		fail("the fence ended with %s", ibv_wc_status_str(wc.status));
	return wc.opcode == IBV_WC_RECV; /* or it is our last answer */
}

static void server(void)
{
	for (uint32_t first = 0; first < args.messages; first = batch_end(first)) {
		do
			take_all();
		while (!fence_came());
		take_all();
		fence_receive();
		fence_post(1);
	}
}

/* --- as many as the rates let through --- */

/* Bernstein: a sum of independent events of this @mean and @variance is further off with a
 * probability of less than 10^-6. */
static void within(const char *what, uint32_t count, double least, double most, double variance)
{
	double l = log(2e6), slack = l / 3 + sqrt(l * l / 9 + 2 * variance * l);

	if (variance == 0) /* it cannot be */
		slack = 0;
	printf("%s: %u, expected %.1f to %.1f, give or take %.1f\n", what, count, least, most,
	       slack);
	if (count < least - slack || count > most + slack)
		fail("%s: %u of %u do not fit the rates", what, count, args.messages);
}

static void judge(void)
{
	/* Some damage undoes itself, or changes what routers may. By UC overtaking may cost. */
	double least = 1 - (1 - args.loss) * (1 - 0.97 * args.corrupt), lost_least = 0;
	double most = 1 - (1 - args.loss) * (1 - args.corrupt), lost_most = 0, variance = 0;
	double again = args.service == BY_UD ? args.dup * (1 - most) : 0;

	if (args.service != BY_UD)
		most = 1 - (1 - most) * (1 - args.reorder);
	for (uint32_t n = 0; n < args.messages; n++) {
		double few = 1 - pow(1 - least, packets(n)), many = 1 - pow(1 - most, packets(n));

		lost_least += few;
		lost_most += many;
		variance += many * (1 - few);
	}
	within("lost", args.messages - arrived, lost_least, lost_most, variance);
	within("twice", twice, again * args.messages, again * args.messages, again * args.messages);
}

/* --- */

static bool fault(const char *text)
{
	const struct {
		const char *name;
		double *to;
	} known[] = { { "loss=", &args.loss },
		      { "dup=", &args.dup },
		      { "reorder=", &args.reorder },
		      { "corrupt=", &args.corrupt } };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strncmp(text, known[i].name, strlen(known[i].name))) {
			*known[i].to = atof(text + strlen(known[i].name)) / 100;
			return true;
		}
	return false;
}

static bool option(int c)
{
	switch (c) {
	case 'g':
		peer_gid_index = (uint8_t)atoi(optarg);
		return true;
	case 'm':
		args.mtu = (uint32_t)atoi(optarg);
		return true;
	case 'n':
		args.messages = (uint32_t)atoi(optarg);
		return true;
	case 's':
		args.seed = strtoull(optarg, NULL, 0);
		return true;
	case 'f':
		return fault(optarg);
	case 'l':
		args.tool = optarg;
		return true;
	case 'p':
		args.port = optarg;
		return true;
	default:
		return false;
	}
}

static void parse(int argc, char **argv)
{
	static const char *const services[] = {
		[BY_SEND] = "uc", [BY_WRITE] = "write", [BY_UD] = "ud"
	};
	bool known = argc > 1;
	int c;

	args.service = BY_SEND;
	while (known && args.service <= BY_UD && strcmp(argv[1], services[args.service]))
		args.service++;
	known = known && args.service <= BY_UD;
	optind = 2;
	while (known && (c = getopt(argc, argv, "g:m:n:s:f:l:p:")) != -1)
		known = option(c);
	if (!known || !args.port || optind < argc - 1)
		fail("usage: counting uc|write|ud [-g GID-INDEX] [-m MTU] [-n MESSAGES] [-s SEED] "
		     "[-f FAULT=PERCENT]... [-l TOOL] -p PORT [ADDRESS]");
	args.address = argv[optind];
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	seen = calloc(args.messages, 1);
	me.fd = tcp_open();
	connect_all();
	if (!args.address) {
		for (uint64_t i = 0; i < RECEIVES; i++)
			receive(i);
		fence_receive();
	}
	peer_sync(me.fd);
	if (args.address)
		client();
	else
		server();
	peer_sync(me.fd); /* nobody leaves while the other may want something repeated */
	if (!args.address)
		judge();
	printf("done: %u messages\n", args.messages);
	return 0;
}
