// SPDX-License-Identifier: MIT
/* Sockets over RDMA: what calls answer, what arrives, and what a peer that lies brings about. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/sockets.h"

enum { BIG = 3 << 20 };

/* --- cases --- */

static void types(int arg)
{
	(void)arg;
	want_minus1(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	want_minus1(rsocket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ENOTSUP);
	want_minus1(rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), ENOTSUP);
	want_minus1(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), ENOTSUP);
	want_minus1(rsocket(AF_INET6, SOCK_DGRAM, IPPROTO_TCP), ENOTSUP);
	want_minus1(rsocket(AF_INET, SOCK_RAW, 0), ENOTSUP);
}

static void states(int arg)
{
	struct sockaddr_in at = any_port();
	socklen_t len = sizeof(at);
	char c = 0;
	int fd, l, plain = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)arg;
	want_minus1(rsend(-1, &c, 1, 0), EBADF);
	want_minus1(rclose(1 << 30), EBADF);
	want_minus1(rrecv(plain, &c, 1, 0), EBADF);
	close(plain);
	l = listener(&at);
	want_minus1(rbind(l, (struct sockaddr *)&at, sizeof(at)), EINVAL);
	want_minus1(rconnect(l, (struct sockaddr *)&at, sizeof(at)), EINVAL);
	want_minus1(rsend(l, &c, 1, 0), ENOTCONN);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	want_minus1(rbind(fd, (struct sockaddr *)&at, sizeof(at)), EADDRINUSE);
	want_minus1(rbind(fd, (struct sockaddr *)&at, 4), EINVAL);
	want_minus1(raccept(fd, NULL, NULL), EINVAL);
	want_minus1(rrecv(fd, &c, 1, 0), ENOTCONN);
	want_minus1(rshutdown(fd, SHUT_WR), ENOTCONN);
	want_minus1(rgetpeername(fd, (struct sockaddr *)&at, &len), ENOTCONN);
	want_eq(rfcntl(l, F_SETFL, O_NONBLOCK), 0);
	want_eq(rfcntl(l, F_GETFL), O_RDWR | O_NONBLOCK);
	want_minus1(raccept(l, NULL, NULL), EAGAIN);
	want_eq(rclose(l), 0);
	want_minus1(rconnect(fd, (struct sockaddr *)&at, sizeof(at)), ECONNREFUSED);
	want_eq(rclose(fd), 0);
	want_minus1(rclose(fd), EBADF);
}

static void options(int arg)
{
	const int on = 1, big = 1 << 20;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), n = 0;
	socklen_t len = sizeof(n);

	(void)arg;
	want_eq(rgetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, &len), 0);
	want_eq(n, 1 << 17);
	want_eq(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &big, sizeof(big)), 0);
	want_eq(rgetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n, &len), 0);
	want_eq(n, 2 << 20);
	want_eq(rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	want_eq(rgetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &n, &len), 0);
	want_eq(n, 1);
	want_eq(rgetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &n, &len), 0);
	want_eq(n, 384);
	want_minus1(rsetsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)), ENOTSUP);
	want_minus1(rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, 1), EINVAL);
	want_minus1(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, NULL, sizeof(struct linger)), EFAULT);
	want_eq(rclose(fd), 0);
}

static void bytes(int arg)
{
	struct iovec v[2];
	char in[16] = "", a[4] = "", b[8] = "";
	int near, far;

	(void)arg;
	connected(&near, &far);
	want_minus1(rrecv(far, in, sizeof(in), MSG_DONTWAIT), EAGAIN);
	v[0] = (struct iovec){ "hello ", 6 };
	v[1] = (struct iovec){ "world", 5 };
	want_eq(rwritev(near, v, 2), 11);
	want_eq(rrecv(far, in, 5, MSG_PEEK), 5);
	want(!memcmp(in, "hello", 5));
	v[0] = (struct iovec){ a, sizeof(a) };
	v[1] = (struct iovec){ b, sizeof(b) };
	want_eq(rreadv(far, v, 2), 11);
	want(!memcmp(a, "hell", 4) && !memcmp(b, "o world", 7));
	want_eq(rwrite(near, "abc", 3), 3);
	want_eq(rwrite(near, "def", 3), 3);
	want_eq(rrecv(far, in, 6, MSG_WAITALL), 6);
	want(!memcmp(in, "abcdef", 6));
	want_eq(rshutdown(near, SHUT_WR), 0);
	want_minus1(rsend(near, "x", 1, 0), EPIPE);
	want_eq(rrecv(far, in, sizeof(in), 0), 0);
	want_eq(rwrite(far, "back", 4), 4);
	want_eq(rclose(far), 0);
	want_eq(rrecv(near, in, sizeof(in), MSG_WAITALL), 4);
	want_eq(rrecv(near, in, sizeof(in), 0), 0);
	want_eq(rclose(near), 0);
}

static void both_kinds(int arg)
{
	struct pollfd p[3];
	struct timeval soon = { LIMIT / 1000, 0 };
	char c;
	int near, far, pipe_[2];
	fd_set r, w;

	(void)arg;
	connected(&near, &far);
	want_eq(pipe(pipe_), 0);
	p[0] = (struct pollfd){ .fd = far, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = pipe_[0], .events = POLLIN };
	p[2] = (struct pollfd){ .fd = -1, .events = POLLIN };
	want_eq(rpoll(p, 3, 0), 0);
	want_eq(write(pipe_[1], "x", 1), 1);
	want_eq(rpoll(p, 3, LIMIT), 1);
	want(!p[0].revents && p[1].revents == POLLIN);
	want_eq(rsend(near, "y", 1, 0), 1);
	wait_for(far, POLLIN);
	want_eq(rpoll(p, 3, LIMIT), 2);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(far, &r);
	FD_SET(near, &r);
	FD_SET(near, &w);
	want_eq(rselect((near > far ? near : far) + 1, &r, &w, NULL, &soon), 2);
	want(FD_ISSET(far, &r) && !FD_ISSET(near, &r) && FD_ISSET(near, &w));
	want_eq(rclose(near), 0);
	p[0].events = POLLOUT; /* writing would fail: it does not block */
	want_eq(rpoll(p, 1, LIMIT), 1);
	want(!(p[0].revents & POLLHUP));
	want_eq(rrecv(far, &c, 1, 0), 1);
	wait_for(far, POLLHUP);
	want_eq(rclose(far), 0);
}

static struct {
	pid_t thread; /* atomic */
	int done; /* atomic */
	int fd, ret;
	struct timeval timeout;
} selecting;

static void *selects(void *arg)
{
	fd_set r;

	__atomic_store_n(&selecting.thread, gettid(), __ATOMIC_RELEASE);
	FD_ZERO(&r);
	FD_SET(selecting.fd, &r);
	selecting.ret = rselect(selecting.fd + 1, &r, NULL, NULL, &selecting.timeout);
	__atomic_store_n(&selecting.done, 1, __ATOMIC_RELEASE);
	return arg;
}

/* No time below 0, and one of many weeks is no moment: 2^32 ms. */
static void select_timeouts(int arg)
{
	struct timeval below[] = { { -1, 0 }, { 0, -1 }, { -1, 2000000 } };
	struct timeval now[] = { { 0, 0 }, { 0, 1 } };
	pthread_t t;
	int pipe_[2];
	fd_set r;

	(void)arg;
	want_eq(pipe(pipe_), 0);
	for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
		FD_ZERO(&r);
		FD_SET(pipe_[0], &r);
		want_minus1(rselect(pipe_[0] + 1, &r, NULL, NULL, &below[i]), EINVAL);
		want(FD_ISSET(pipe_[0], &r));
	}
	for (size_t i = 0; i < sizeof(now) / sizeof(now[0]); i++)
		want_eq(rselect(pipe_[0] + 1, &r, NULL, NULL, &now[i]), 0);
	selecting.fd = pipe_[0];
	selecting.timeout = (struct timeval){ 4294967, 296000 };
	want_eq(pthread_create(&t, NULL, selects, NULL), 0);
	until_asleep_or(stat_of(&selecting.thread), &selecting.done);
	want_eq(write(pipe_[1], "x", 1), 1);
	want_eq(pthread_join(t, NULL), 0);
	want_eq(selecting.ret, 1);
}

/* The kernel counts each entry that it is given against the limit of descriptors. */
static void waits_for_many(int arg)
{
	enum { DESCRIPTORS = 1024, POLLED = 600 };
	static struct pollfd p[POLLED];
	struct timeval soon = { 0, 20000 };
	struct rlimit limit, before;
	int near, far, pipe_[2];
	fd_set r;

	(void)arg;
	want_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = DESCRIPTORS;
	want_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	connected(&near, &far);
	FD_ZERO(&r);
	FD_SET(near, &r);
	want_eq(rselect(FD_SETSIZE, &r, NULL, NULL, &soon), 0);
	want_eq(pipe(pipe_), 0);
	for (int i = 0; i < POLLED; i++)
		p[i] = (struct pollfd){ .fd = i ? pipe_[0] : near, .events = POLLIN };
	want_eq(rpoll(p, POLLED, 20), 0);
	want_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	want_eq(rclose(near), 0);
	want_eq(rclose(far), 0);
}

/* The queue pair has what it can have of the size that was asked for. */
static void large_queues(int arg)
{
	const int size = 30000, inlined = 512;
	struct sockaddr_in at;
	int l = rsocket(AF_INET, SOCK_STREAM, 0), fd = rsocket(AF_INET, SOCK_STREAM, 0), far;
	socklen_t len = sizeof(at);
	char c;

	(void)arg;
	for (int i = 0; i < 2; i++) {
		want_eq(rsetsockopt(i ? l : fd, SOL_RDMA, RDMA_SQSIZE, &size, sizeof(size)), 0);
		want_eq(rsetsockopt(i ? l : fd, SOL_RDMA, RDMA_INLINE, &inlined, sizeof(inlined)),
			0);
	}
	at = any_port();
	want_eq(rbind(l, (struct sockaddr *)&at, sizeof(at)), 0);
	want_eq(rgetsockname(l, (struct sockaddr *)&at, &len), 0);
	want_eq(rlisten(l, 1), 0);
	want_eq(rconnect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	far = raccept(l, NULL, NULL);
	want(far >= 0);
	want_eq(rsend(fd, "x", 1, 0), 1);
	want_eq(rrecv(far, &c, 1, 0), 1);
	want_eq(rclose(fd), 0);
	want_eq(rclose(far), 0);
	want_eq(rclose(l), 0);
}

/* Entries of the I/O map go ahead of a byte. */
static void exchange(int from, int to)
{
	char c;

	want_eq(rsend(from, "x", 1, 0), 1);
	want_eq(rrecv(to, &c, 1, 0), 1);
}

/* rsocket(7): "for local only access (PROT_NONE)". */
static void memory_for_local_access(int arg)
{
	static char memory[64];
	int near, far;

	(void)arg;
	connected(&near, &far);
	want(riomap(far, memory, sizeof(memory), PROT_NONE, 0, 0) == 0);
	want_eq(riounmap(far, memory, sizeof(memory)), 0);
	want_eq(rclose(near), 0);
	want_eq(rclose(far), 0);
	iomaps = 1;
	connected(&near, &far);
	want(riomap(far, memory, sizeof(memory), PROT_NONE, 0, 0) == 0);
	exchange(far, near);
	want_minus1((ssize_t)riowrite(near, "a", 1, 0, 0), EINVAL);
	exchange(near, far);
	want_eq(rclose(near), 0);
	want_eq(rclose(far), 0);
	iomaps = 0;
}

/* Its entry is free at once, though the peer is still to hear of it. */
static void memory_mapped_anew(int arg)
{
	static char first[64], second[64];
	int near, far;

	(void)arg;
	iomaps = 1;
	connected(&near, &far);
	want(riomap(far, first, sizeof(first), PROT_WRITE, 0, 0) == 0);
	exchange(far, near);
	want_eq(riounmap(far, first, sizeof(first)), 0);
	want(riomap(far, second, sizeof(second), PROT_WRITE, 0, 0) == 0);
	want_minus1(riomap(far, first, sizeof(first), PROT_WRITE, 0, 64), ENXIO);
	exchange(far, near);
	want_eq(riowrite(near, "a", 1, 0, 0), 1);
	exchange(near, far);
	want(second[0] == 'a' && !first[0]);
	want_eq(rclose(near), 0);
	want_eq(rclose(far), 0);
	iomaps = 0;
}

/* The library's threads take the signal of a store into a doorbell page: one that blocks it makes
 * the whole process do without. */
static void threads_that_block_no_faults(int arg)
{
	char path[64], text[4096];
	struct sockaddr_in at;
	int l = listener(&at), threads = 0, fd;
	struct dirent *e;
	const char *line;
	ssize_t n;
	DIR *all = opendir("/proc/self/task");
	pid_t tid;

	(void)arg;
	want(all);
	while ((e = readdir(all))) {
		if (e->d_name[0] == '.')
			continue;
		tid = atoi(e->d_name);
		if (tid != getpid())
			until_asleep(&tid); /* it begins with all signals blocked */
		snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = read(fd, text, sizeof(text) - 1);
		want(n > 0);
		text[n] = '\0';
		close(fd);
		line = strstr(text, "SigBlk:");
		want(line);
		want(!(strtoull(line + strlen("SigBlk:"), NULL, 16) >> (SIGSEGV - 1) & 1));
		threads++;
	}
	want(threads >= 3); /* of the program, of connection management, of listening sockets */
	closedir(all);
	want_eq(rclose(l), 0);
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 2654435761U >> 13);
}

static void *send_big(void *arg)
{
	int fd = *(int *)arg;
	uint8_t *m = malloc(BIG);

	for (size_t i = 0; i < BIG; i++)
		m[i] = pattern(i);
	for (size_t at = 0; at < BIG;) {
		ssize_t n = rsend(fd, m + at, BIG - at, 0);

		want(n > 0);
		at += (size_t)n;
	}
	free(m);
	return NULL;
}

static void receive_big(int fd)
{
	uint8_t *m = malloc(BIG);

	for (size_t at = 0, k = 1; at < BIG; k = k * 3 % 70001 + 1) {
		ssize_t n = rrecv(fd, m + at, k < BIG - at ? k : BIG - at, 0);

		want(n > 0);
		at += (size_t)n;
	}
	for (size_t i = 0; i < BIG; i++)
		want(m[i] == pattern(i));
	free(m);
}

/* Both directions at once: four threads on two sockets. */
static void much(int arg)
{
	pthread_t t[2];
	int near, far;

	(void)arg;
	connected(&near, &far);
	want_eq(pthread_create(&t[0], NULL, send_big, &near), 0);
	want_eq(pthread_create(&t[1], NULL, send_big, &far), 0);
	receive_big(far);
	receive_big(near);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	want_eq(rclose(near), 0);
	want_eq(rclose(far), 0);
}

/* --- a peer that lies --- */

static const struct lie {
	uint32_t imm, len;
	bool to_table;
	int times;
} lies[] = {
	{ 1, 0, false, 1 }, /* a byte that was not written */
	{ 0x1fffffff, 64, false, 1 }, /* more than was written */
	{ 2048, 2048, false, 65 }, /* bytes beyond what was offered */
	{ 0x80000180, 8, true, 1 }, /* half an SGE */
	{ 0x80000180, 16, true, 3 }, /* an SGE too many */
	{ 0xc0000000, 0, false, 1 }, /* an entry of no I/O map */
	{ 0x20000000, 0, false, 1 }, /* an operation that there is not */
};

static void ended_with_eio(int fd, struct liar *l)
{
	int err = 0;
	socklen_t len = sizeof(err);

	want_eq(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	want_eq(err, EIO);
	want_minus1(rsend(fd, "x", 1, 0), EIO);
	want_eq(rclose(fd), 0);
	end_liar(l);
	free(l);
}

static void lied_to(int arg)
{
	const struct lie *how = &lies[arg];
	struct liar *l = calloc(1, sizeof(*l));
	int fd;

	want(l);
	fd = meet_liar(l, 1, 384);
	memset(l->mem + 2048, 1, 2048);
	for (int i = 0; i < how->times; i++)
		lie(l, how->imm, how->to_table ? l->sges : l->data,
		    how->to_table ? l->sges_key : l->data_key, how->len);
	wait_for(fd, POLLHUP);
	ended_with_eio(fd, l);
}

static bool hung_up(int fd)
{
	struct pollfd p = { .fd = fd };

	return rpoll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

/*
 * A message beyond the credits. A peer that posts no receives is granted few: the messages that
 * would grant more wait behind the first of them.
 */
static void beyond_credits(int arg)
{
	enum { DEPTH = 400, MORE_THAN_GRANTED = 4 * 384 };
	struct liar *l = calloc(1, sizeof(*l));
	struct ibv_wc wc[16];
	int fd, sent = 0, out = 0, n;

	(void)arg;
	want(l);
	fd = meet_liar(l, 1, 0);
	while (!hung_up(fd)) {
		n = ibv_poll_cq(l->id->send_cq, 16, wc);
		want(n >= 0);
		out -= n;
		want(sent - out < MORE_THAN_GRANTED);
		if (out == DEPTH)
			continue;
		lie(l, 1, l->data, l->data_key, 1);
		sent++;
		out++;
	}
	want(sent > 384);
	ended_with_eio(fd, l);
}

static void other_version(int arg)
{
	struct liar *l = calloc(1, sizeof(*l));
	int fd, err = 0;
	socklen_t len = sizeof(err);

	(void)arg;
	want(l);
	fd = meet_liar(l, 2, 384);
	want_eq(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	want_eq(err, ECONNREFUSED);
	want_eq(rclose(fd), 0);
	end_liar(l);
	free(l);
}

/* --- what happens while nobody calls --- */

static int connect_to(const struct sockaddr_in *at)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	want(fd >= 0);
	want_eq(rconnect(fd, (const struct sockaddr *)at, sizeof(*at)), 0);
	return fd;
}

/* A client is connected, and may send, before the server accepts; in the order of connecting. */
static void accepted_behind(int arg)
{
	enum { CLIENTS = 3 };
	struct sockaddr_in at;
	int l = listener(&at), near[CLIENTS], far;
	char c;

	(void)arg;
	for (int i = 0; i < CLIENTS; i++) {
		near[i] = connect_to(&at);
		want_eq(rsend(near[i], &(char){ (char)('a' + i) }, 1, 0), 1);
	}
	for (int i = 0; i < CLIENTS - 1; i++) {
		wait_for(l, POLLIN);
		far = raccept(l, NULL, NULL);
		want_eq(rrecv(far, &c, 1, 0), 1);
		want_eq(c, 'a' + i);
		want_eq(rclose(far), 0);
		want_eq(rclose(near[i]), 0);
	}
	want_eq(rclose(l), 0); /* the last one was accepted, and nobody asks for it */
	wait_for(near[CLIENTS - 1], POLLHUP);
	want_eq(rclose(near[CLIENTS - 1]), 0);
}

/* A backlog of one: the second client waits until the first is taken. Its request stays with the
 * listener, whose descriptor says so. */
static void backlog(int arg)
{
	struct sockaddr_in at;
	int l = listener(&at), near, next, far;
	struct pollfd asked = { .fd = l, .events = POLLIN }, met = { .events = POLLOUT };

	(void)arg;
	want_eq(rlisten(l, 1), 0);
	near = connect_to(&at);
	next = rsocket(AF_INET, SOCK_STREAM, 0);
	want_eq(rfcntl(next, F_SETFL, O_NONBLOCK), 0);
	want_minus1(rconnect(next, (struct sockaddr *)&at, sizeof(at)), EINPROGRESS);
	met.fd = next;
	do
		want_eq(rpoll(&met, 1, 1), 0);
	while (poll(&asked, 1, 0) == 0);
	far = raccept(l, NULL, NULL);
	want(far >= 0);
	want_eq(rclose(far), 0);
	wait_for(next, POLLOUT);
	far = raccept(l, NULL, NULL);
	want(far >= 0);
	want_eq(rclose(far), 0);
	want_eq(rclose(next), 0);
	want_eq(rclose(near), 0);
	want_eq(rclose(l), 0);
}

static pid_t accepting; /* the thread; atomic */

static void *accept_one(void *listening)
{
	int fd;

	__atomic_store_n(&accepting, gettid(), __ATOMIC_RELEASE);
	fd = raccept(*(int *)listening, NULL, NULL);
	return (void *)(intptr_t)(fd < 0 ? errno : 0);
}

static void closed_while_accepting(int arg)
{
	struct sockaddr_in at;
	int l = listener(&at);
	pthread_t thread;
	void *answer;

	(void)arg;
	want_eq(pthread_create(&thread, NULL, accept_one, &l), 0);
	until_asleep(&accepting);
	want_eq(rclose(l), 0);
	want_eq(pthread_join(thread, &answer), 0);
	want_eq((intptr_t)answer, EBADF);
}

/* --- threads that are cancelled --- */

static void *receives(void *fd)
{
	char c;

	rrecv(*(int *)fd, &c, 1, 0);
	return NULL;
}

static void *awaits(void *fd)
{
	struct pollfd p = { .fd = *(int *)fd, .events = POLLIN };

	rpoll(&p, 1, LIMIT);
	return NULL;
}

/* In their sleep or before it, as it comes: the sockets work on. */
static void cancelled(int rounds)
{
	void *(*const calls[])(void *) = { receives, awaits };
	int near, far;
	pthread_t t[2];
	void *end;
	char c = 0;

	if (cases_sanitized())
		case_skip("AddressSanitizer fails itself when a cancelled thread is unwound");
	connected(&near, &far);
	for (int i = 0; i < rounds; i++) {
		for (int k = 0; k < 2; k++)
			want_eq(pthread_create(&t[k], NULL, calls[k], &far), 0);
		for (int k = 0; k < 2; k++)
			want_eq(pthread_cancel(t[k]), 0);
		for (int k = 0; k < 2; k++) {
			want_eq(pthread_join(t[k], &end), 0);
			want(end == PTHREAD_CANCELED);
		}
		want_eq(rsend(near, "x", 1, 0), 1);
		want_eq(rrecv(far, &c, 1, 0), 1);
		want_eq(c, 'x');
	}
	want_eq(rclose(near), 0);
	want_eq(rclose(far), 0);
}

/* Nobody sends, and the peer's queue pair is gone without a word: only a probe can tell. */
static void keepalive(int arg)
{
	const int on = 1, idle = 1; /* s */
	struct liar *l = calloc(1, sizeof(*l));
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	int fd;

	(void)arg;
	want(l);
	fd = meet_liar(l, 1, 384);
	want_eq(ibv_modify_qp(l->id->qp, &err, IBV_QP_STATE), 0);
	want_eq(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)), 0);
	want_eq(rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
	wait_for(fd, POLLHUP);
	ended_with_eio(fd, l);
}

/* --- a peer that writes anything --- */

static uint64_t dice;

static unsigned int below(unsigned int n)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (unsigned int)((dice >> 20) % n);
}

/* A message of any operation and number, written to any part of what was shown; bytes. */
static unsigned int anything(struct liar *l)
{
	static const uint32_t numbers[] = { 0,	 1,   2,      7,      8,	 64,
					    127, 384, 0x8001, 0xffff, 0x1ffffff, 0x1fffffff };
	static const unsigned int lens[] = { 0, 0, 1, 8, 16, 16, 24, 24, 64, 2048 };
	unsigned int len = lens[below(10)];
	uint32_t imm = below(8) << 29 | numbers[below(12)];
	bool table = below(2);

	if (imm >> 29 == 0 && below(4))
		imm = len; /* true for once */
	for (unsigned int i = 0; i < len && i < 64; i++)
		l->mem[2048 + i] = below(3) ? 0 : (uint8_t)below(256);
	if (table)
		lie(l, imm, l->sges + below(4) * 8, l->sges_key, len < 64 ? len : 64);
	else
		lie(l, imm, l->data + below(64), l->data_key, len);
	return len;
}

/* What the program does meanwhile; bytes it has received. */
static ssize_t work_on(int fd)
{
	static uint8_t buf[4096];
	ssize_t n;

	switch (below(5)) {
	case 0:
		rsend(fd, buf, below(sizeof(buf)), MSG_DONTWAIT);
		return 0;
	case 1:
		riowrite(fd, buf, below(256), below(1 << 16), MSG_DONTWAIT);
		return 0;
	default:
		n = rrecv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		want(n <= (ssize_t)sizeof(buf));
		return n > 0 ? n : 0;
	}
}

static void one_life(void)
{
	struct liar *l = calloc(1, sizeof(*l));
	struct ibv_wc wc[16];
	ssize_t got = 0, written = 0;
	int fd;

	want(l);
	fd = meet_liar(l, 1, 384);
	for (unsigned int n = 1 + below(60); n && !hung_up(fd); n--) {
		written += anything(l);
		got += work_on(fd);
		while (ibv_poll_cq(l->id->send_cq, 16, wc) > 0)
			;
	}
	for (int i = 0; i < 64; i++)
		got += work_on(fd);
	want(got <= written);
	end_liar(l); /* rclose() would wait for it */
	want_eq(rclose(fd), 0);
	free(l);
}

static void lies_by_chance(int lives)
{
	const char *seed = getenv("SOFTHCA_SEED");

	dice = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
	printf("# SOFTHCA_SEED=%llu\n", (unsigned long long)dice);
	dice |= 1;
	iomaps = 8;
	while (lives--)
		one_life();
}

int main(void)
{
	const struct test_case list[] = {
		CASE(types),
		CASE(states),
		CASE(options),
		CASE(bytes),
		CASE(both_kinds),
		CASE(select_timeouts),
		CASE(waits_for_many),
		CASE(large_queues),
		CASE(memory_for_local_access),
		CASE(memory_mapped_anew),
		CASE(threads_that_block_no_faults),
		CASE(much),
		CASE_ARG(lied_to, 0),
		CASE_ARG(lied_to, 1),
		CASE_ARG(lied_to, 2),
		CASE_ARG(lied_to, 3),
		CASE_ARG(lied_to, 4),
		CASE_ARG(lied_to, 5),
		CASE_ARG(lied_to, 6),
		CASE(beyond_credits),
		CASE(other_version),
		CASE(accepted_behind),
		CASE(backlog),
		CASE(closed_while_accepting),
		CASE_ARG(cancelled, 200),
		CASE(keepalive),
		{ "lies by chance", lies_by_chance, cases_full() ? 20000 : 100 },
	};

	return CASES_RUN(list);
}
