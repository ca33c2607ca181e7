// SPDX-License-Identifier: MIT
/* Datagrams over RDMA (rsocket(7), SOCK_DGRAM): what calls answer, what arrives, and by which way;
 * a peer that speaks the protocol by itself, UDP and a queue pair of its own, also lies. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "verbs/cases.h"

enum { LIMIT = 60000, LONGEST = 2048, GRH = 40, SLOTS = 8, ROOM = 4096, QUEUE = 384 };

static struct sockaddr_in loop(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int socket_at(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	*at = loop();
	want(fd >= 0);
	want_eq(rbind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	want_eq(rgetsockname(fd, (struct sockaddr *)at, &len), 0);
	want(at->sin_port);
	return fd;
}

static void send_to(int fd, const struct sockaddr_in *to, const void *data, size_t len)
{
	want_eq(rsendto(fd, data, len, 0, (const struct sockaddr *)to, sizeof(*to)), len);
}

static void receive(int fd, const struct sockaddr_in *from, const void *data, size_t len)
{
	struct sockaddr_in who;
	socklen_t n = sizeof(who);
	char got[LONGEST];

	want_eq(rrecvfrom(fd, got, sizeof(got), 0, (struct sockaddr *)&who, &n), len);
	want_eq(n, sizeof(who));
	want_eq(who.sin_port, from->sin_port);
	want_eq(who.sin_addr.s_addr, from->sin_addr.s_addr);
	want(!memcmp(got, data, len));
}

static void nothing_for(int fd)
{
	char c;

	want_minus1(rrecv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
}

/* --- two sockets --- */

static void both_ways(int arg)
{
	struct sockaddr_in a, b;
	int one = socket_at(&a), two = socket_at(&b);
	static char big[LONGEST];

	(void)arg;
	nothing_for(one);
	memset(big, 'x', sizeof(big));
	for (int i = 0; i < 100; i++) {
		send_to(one, &b, &i, sizeof(i));
		receive(two, &a, &i, sizeof(i));
		send_to(two, &a, big, sizeof(big));
		receive(one, &b, big, sizeof(big));
	}
	send_to(one, &b, NULL, 0);
	receive(two, &a, "", 0);
	want_eq(rclose(one), 0);
	want_eq(rclose(two), 0);
}

static void calls(int arg)
{
	struct sockaddr_in a, b;
	int fd = socket_at(&a), two = socket_at(&b), n = 0;
	static char big[LONGEST + 1];
	socklen_t len = sizeof(n);
	char got[4];

	(void)arg;
	want_minus1(rsend(fd, big, 1, 0), EDESTADDRREQ);
	want_minus1(rlisten(fd, 1), EOPNOTSUPP);
	want_minus1(raccept(fd, NULL, NULL), EOPNOTSUPP);
	want_minus1(rshutdown(fd, SHUT_WR), ENOTCONN);
	want_minus1(rgetpeername(fd, (struct sockaddr *)&a, &len), ENOTCONN);
	want_minus1(rsendto(fd, big, sizeof(big), 0, (struct sockaddr *)&b, sizeof(b)), EMSGSIZE);
	want_minus1(rsendto(fd, big, 1, 0, (struct sockaddr *)&b, 4), EINVAL);
	want_minus1(riomap(fd, big, 1, 0, 0, -1), ENOTCONN);
	len = sizeof(n);
	want_eq(rgetsockopt(fd, SOL_SOCKET, SO_TYPE, &n, &len), 0);
	want_eq(n, SOCK_DGRAM);
	want_eq(rconnect(fd, (struct sockaddr *)&b, sizeof(b)), 0);
	want_eq(rsend(fd, "four", 4, 0), 4);
	want_eq(rrecv(two, got, 2, MSG_PEEK), 2);
	want_eq(rrecv(two, got, sizeof(got), 0), 4);
	want(!memcmp(got, "four", 4));
	nothing_for(two);
	want_eq(rshutdown(fd, SHUT_RDWR), 0);
	want_eq(rrecv(fd, got, 1, 0), 0);
	want_minus1(rsend(fd, got, 1, 0), EPIPE);
	want_eq(rclose(fd), 0);
	want_eq(rclose(two), 0);
	want_minus1(rrecv(two, got, 1, 0), EBADF);
}

/* A program that does not receive loses what is too much, and can send on. */
static void more_than_there_is_room(int arg)
{
	struct sockaddr_in a, b;
	int one = socket_at(&a), two = socket_at(&b), got = 0;
	uint32_t first = 1, n;

	(void)arg;
	send_to(one, &b, &first, sizeof(first));
	receive(two, &a, &first, sizeof(first));
	for (uint32_t i = 0; i < 4 * QUEUE; i++) {
		send_to(one, &b, &i, sizeof(i));
		send_to(two, &a, &i, sizeof(i));
	}
	while (rrecv(two, &n, sizeof(n), MSG_DONTWAIT) == sizeof(n))
		got++;
	want(got >= QUEUE && got <= 4 * QUEUE);
	want_eq(rclose(one), 0);
	want_eq(rclose(two), 0);
}

static void polled(int arg)
{
	struct sockaddr_in a, b;
	int one = socket_at(&a), two = socket_at(&b);
	struct pollfd p = { .fd = two, .events = POLLIN | POLLOUT };
	char c = 'c';

	(void)arg;
	want_eq(rpoll(&p, 1, 0), 1);
	want_eq(p.revents, POLLOUT);
	p.events = POLLIN;
	for (int i = 0; i < 50; i++) {
		want_eq(rpoll(&p, 1, 0), 0);
		send_to(one, &b, &c, 1);
		want_eq(rpoll(&p, 1, LIMIT), 1);
		want_eq(p.revents, POLLIN);
		receive(two, &a, &c, 1);
	}
	want_eq(rclose(one), 0);
	want_eq(rclose(two), 0);
}

/* --- a peer of its own making --- */

struct udp_header {
	__be32 tag;
	uint8_t version, op, length, zero;
	__be32 qpn, addr;
};

struct ud_header {
	uint8_t version, length;
	__be16 port;
	__be32 addr;
};

struct other {
	int fd; /* UDP */
	struct sockaddr_in at, to;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct udp_header hello; /* what it says of itself, and its datagram */
	char data[4];
	uint8_t memory[SLOTS][ROOM];
};

static void make_qp(struct other *o)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_UD,
				      .sq_sig_all = 1,
				      .cap = { SLOTS, SLOTS, 1, 1, 0 } };
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 };
	struct sockaddr_in any = loop();
	struct ibv_gid_entry e;

	want_eq(rdma_create_id(NULL, &o->id, NULL, RDMA_PS_UDP), 0);
	want_eq(rdma_bind_addr(o->id, (struct sockaddr *)&any), 0);
	want_eq(rdma_create_qp(o->id, NULL, &a), 0);
	o->mr = ibv_reg_mr(o->id->pd, o->memory, sizeof(o->memory), IBV_ACCESS_LOCAL_WRITE);
	want(o->mr);
	for (uint64_t i = 0; i < SLOTS - 1; i++) {
		struct ibv_sge sge = { (uintptr_t)o->memory[i], ROOM, o->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

		want_eq(ibv_post_recv(o->id->qp, &wr, &bad), 0);
	}
	ah.grh.dgid = o->id->route.addr.addr.ibaddr.sgid;
	while (ibv_query_gid_ex(o->id->verbs, 1, ah.grh.sgid_index, &e, 0) ||
	       e.gid_type != IBV_GID_TYPE_ROCE_V2 || memcmp(&e.gid, &ah.grh.dgid, sizeof(e.gid)))
		ah.grh.sgid_index++;
	o->ah = ibv_create_ah(o->id->pd, &ah);
	want(o->ah);
}

static struct other *other_of(const struct sockaddr_in *to)
{
	struct other *o = calloc(1, sizeof(*o));
	socklen_t len = sizeof(o->at);

	want(o);
	o->to = *to;
	o->at = loop();
	o->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	want_eq(bind(o->fd, (struct sockaddr *)&o->at, sizeof(o->at)), 0);
	want_eq(getsockname(o->fd, (struct sockaddr *)&o->at, &len), 0);
	make_qp(o);
	o->hello = (struct udp_header){ .tag = htobe32(0x55555555),
					.version = 4,
					.length = 16,
					.qpn = htobe32(o->id->qp->qp_num),
					.addr = o->at.sin_addr.s_addr };
	memcpy(o->data, "data", 4);
	return o;
}

static void end_other(struct other *o)
{
	ibv_destroy_ah(o->ah);
	rdma_destroy_qp(o->id);
	ibv_dereg_mr(o->mr);
	rdma_destroy_id(o->id);
	close(o->fd);
	free(o);
}

static void say(struct other *o)
{
	uint8_t packet[sizeof(o->hello) + sizeof(o->data)];

	memcpy(packet, &o->hello, sizeof(o->hello));
	memcpy(packet + sizeof(o->hello), o->data, sizeof(o->data));
	want_eq(sendto(o->fd, packet, sizeof(packet), 0, (struct sockaddr *)&o->to, sizeof(o->to)),
		sizeof(packet));
}

/* The next UDP packet for it: what the socket says of itself. */
static struct udp_header heard(struct other *o, uint8_t op, size_t len)
{
	uint8_t packet[ROOM];
	struct udp_header h;

	want_eq(recv(o->fd, packet, sizeof(packet), 0), sizeof(h) + len);
	memcpy(&h, packet, sizeof(h));
	want_eq(h.tag, htobe32(0x55555555));
	want_eq(h.version, 4);
	want_eq(h.op, op);
	want_eq(h.length, sizeof(h));
	want_eq(h.addr, htonl(INADDR_LOOPBACK));
	want(be32toh(h.qpn) > 1);
	return h;
}

/* The next message for its queue pair, if it is there. */
static bool has_message(struct other *o, const void *data, size_t len)
{
	struct ud_header h;
	struct ibv_wc wc;
	int n = ibv_poll_cq(o->id->recv_cq, 1, &wc);

	if (!n)
		return false;
	want_eq(n, 1);
	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.byte_len, GRH + sizeof(h) + len);
	memcpy(&h, o->memory[wc.wr_id] + GRH, sizeof(h));
	want_eq(h.version, 4);
	want_eq(h.length, sizeof(h));
	want_eq(h.port, o->to.sin_port);
	want_eq(h.addr, htonl(INADDR_LOOPBACK));
	want(!memcmp(o->memory[wc.wr_id] + GRH + sizeof(h), data, len));
	return true;
}

/* What it says of itself, without a datagram. */
static void answer(struct other *o)
{
	const struct udp_header hello = o->hello;

	o->hello.op = 7;
	say(o);
	o->hello = hello;
}

/* To its queue pair, which the socket knows. A machine that stops for a second has made it silent
 * for so long: then it is asked by UDP, and answers. */
static void send_near(int fd, struct other *o, const void *data, size_t len)
{
	char packet[ROOM];

	send_to(fd, &o->at, data, len);
	while (!has_message(o, data, len)) {
		if (recv(o->fd, packet, sizeof(packet), MSG_DONTWAIT) < 0)
			continue;
		answer(o);
		send_to(fd, &o->at, data, len);
	}
}

static void post_message(struct other *o, uint32_t qpn, const struct ud_header *h)
{
	struct ibv_sge sge = { (uintptr_t)o->memory[SLOTS - 1], sizeof(*h) + 4, o->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .wr.ud = { o->ah, qpn, RDMA_UDP_QKEY } },
			   *bad;
	struct ibv_wc wc;

	memcpy(o->memory[SLOTS - 1], h, sizeof(*h));
	memcpy(o->memory[SLOTS - 1] + sizeof(*h), "fast", 4);
	want_eq(ibv_post_send(o->id->qp, &wr, &bad), 0);
	while (!ibv_poll_cq(o->id->send_cq, 1, &wc))
		;
	want_eq(wc.status, IBV_WC_SUCCESS);
}

/* The protocol, as rdma-core's peers speak it. */
static void as_others_speak(int arg)
{
	struct sockaddr_in at;
	int fd = socket_at(&at);
	struct other *o = other_of(&at);
	struct ud_header h = { 4, sizeof(h), o->at.sin_port, htonl(INADDR_LOOPBACK) };
	struct udp_header mine;

	(void)arg;
	say(o);
	receive(fd, &o->at, "data", 4);
	mine = heard(o, 7, 0);
	send_near(fd, o, "back", 4);
	post_message(o, be32toh(mine.qpn), &h);
	receive(fd, &o->at, "fast", 4);
	want_eq(rclose(fd), 0);
	end_other(o);
}

/* The socket begins: by UDP, until the peer has said its queue pair. */
static void begun_by_us(int arg)
{
	struct sockaddr_in at;
	int fd = socket_at(&at);
	struct other *o = other_of(&at);

	(void)arg;
	send_to(fd, &o->at, "one", 3);
	heard(o, 0, 3);
	send_to(fd, &o->at, "two", 3);
	heard(o, 0, 3);
	answer(o);
	nothing_for(fd);
	send_near(fd, o, "three", 5);
	want_eq(rclose(fd), 0);
	end_other(o);
}

/* A peer that has said nothing for a second may be another by now: it is asked by UDP. */
static void silent_peer_is_asked(int arg)
{
	struct sockaddr_in at;
	int fd = socket_at(&at);
	struct other *o = other_of(&at);
	char packet[ROOM];

	(void)arg;
	say(o);
	receive(fd, &o->at, "data", 4);
	heard(o, 7, 0);
	send_near(fd, o, "near", 4);
	do
		send_to(fd, &o->at, "far", 3);
	while (recv(o->fd, packet, sizeof(packet), MSG_DONTWAIT) < 0);
	want(!memcmp(packet + sizeof(o->hello), "far", 3));
	want_eq(rclose(fd), 0);
	end_other(o);
}

/* What is not as it should be is no datagram. */
static void lies_by_udp(int lie)
{
	struct sockaddr_in at;
	int fd = socket_at(&at);
	struct other *o = other_of(&at);
	struct udp_header good = o->hello, *h = &o->hello;

	switch (lie) {
	case 0:
		h->tag = 1;
		break;
	case 1:
		h->version = 5;
		break;
	case 2:
		h->length = 28; /* longer than the packet */
		break;
	case 3:
		h->op = 3;
		break;
	default:
		h->version = 6;
	}
	say(o);
	o->hello = good;
	memcpy(o->data, "good", 4);
	say(o);
	receive(fd, &o->at, "good", 4);
	nothing_for(fd);
	want_eq(rclose(fd), 0);
	end_other(o);
}

/* A queue pair of another address, or of a number that none has, is not sent to. */
static void lies_of_its_queue_pair(int lie)
{
	struct sockaddr_in at;
	int fd = socket_at(&at);
	struct other *o = other_of(&at);

	if (lie)
		o->hello.addr = htonl(INADDR_LOOPBACK + 1);
	else
		o->hello.qpn = htobe32(1);
	say(o);
	receive(fd, &o->at, "data", 4);
	heard(o, 7, 0);
	send_to(fd, &o->at, "back", 4);
	heard(o, 0, 4);
	want_eq(rclose(fd), 0);
	end_other(o);
}

/* A message in the name of a peer that has another queue pair, or of nobody. */
static void lies_by_queue_pair(int lie)
{
	struct sockaddr_in at;
	int fd = socket_at(&at);
	struct other *o = other_of(&at), *thief = other_of(&at);
	struct ud_header h = { 4, sizeof(h), o->at.sin_port, htonl(INADDR_LOOPBACK) };
	struct udp_header mine;

	say(o);
	receive(fd, &o->at, "data", 4);
	mine = heard(o, 7, 0);
	if (lie == 1)
		h.addr = htonl(INADDR_LOOPBACK + 1);
	if (lie == 2)
		h.port = (__be16)(h.port ^ htons(1));
	if (lie == 3)
		h.length = 200;
	post_message(lie ? o : thief, be32toh(mine.qpn), &h);
	h = (struct ud_header){ 4, sizeof(h), o->at.sin_port, htonl(INADDR_LOOPBACK) };
	nothing_for(fd);
	post_message(o, be32toh(mine.qpn), &h);
	receive(fd, &o->at, "fast", 4);
	nothing_for(fd);
	want_eq(rclose(fd), 0);
	end_other(o);
	end_other(thief);
}

/* Packets that are no datagrams, without an end: a call that does not wait comes to its own. */
static struct other *flooder;
static int flooded_fd = -1, floods;

/* The C library declares addresses as unions. */
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC visibility push(default)
ssize_t recvfrom(int fd, void *data, size_t n, int flags, struct sockaddr *from, socklen_t *len)
{
	enum { MANY = 20000 };

	if (fd == flooded_fd) {
		want(++floods < MANY);
		say(flooder);
	}
	return syscall(SYS_recvfrom, fd, data, n, flags, from, len);
}
#pragma GCC visibility pop

static void flooded(int arg)
{
	struct sockaddr_in at;
	int fd = socket_at(&at);

	(void)arg;
	flooder = other_of(&at);
	flooder->hello.tag = 1;
	flooded_fd = fd;
	nothing_for(fd);
	flooded_fd = -1;
	want_eq(rclose(fd), 0);
	end_other(flooder);
}

int main(void)
{
	static const struct test_case list[] = {
		CASE(both_ways),
		CASE(calls),
		CASE(more_than_there_is_room),
		CASE(polled),
		CASE(as_others_speak),
		CASE(begun_by_us),
		CASE(silent_peer_is_asked),
		CASE_ARG(lies_by_udp, 0),
		CASE_ARG(lies_by_udp, 1),
		CASE_ARG(lies_by_udp, 2),
		CASE_ARG(lies_by_udp, 3),
		CASE_ARG(lies_by_udp, 4),
		CASE_ARG(lies_of_its_queue_pair, 0),
		CASE_ARG(lies_of_its_queue_pair, 1),
		CASE_ARG(lies_by_queue_pair, 0),
		CASE_ARG(lies_by_queue_pair, 1),
		CASE_ARG(lies_by_queue_pair, 2),
		CASE_ARG(lies_by_queue_pair, 3),
		CASE(flooded),
	};

	return CASES_RUN(list);
}
