// SPDX-License-Identifier: MIT
/* A signal handler that calls exit() and has interrupted an allocation of the library, as qperf's
 * handler of SIGURG does in rdma_listen() when its client was refused. The lock of malloc() is
 * never given back then: what the library does in exit() may not ask for memory. This file stands
 * in place of the C library's functions and sees it ask. Under a sanitizer, which allocates itself,
 * it cannot. */
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "verbs/cases.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

static void exit_in_an_allocation_asks_for_no_memory(int arg)
{
	(void)arg;
	case_skip("the sanitizer has malloc() for itself");
}

#else

enum { LEFT = 3, ASKED = 4, MOST = 1000 /* allocations of a server */ };

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static __thread long until; /* allocations of this thread until one is interrupted; 0: none is */
static __thread volatile bool inside; /* one was */

static void allocates(void)
{
	if (inside)
		_exit(ASKED);
	if (!until || --until)
		return;
	inside = true;
	raise(SIGURG);
}

/* Found by the libraries, though programs hide theirs. */
#pragma GCC visibility push(default)

void *malloc(size_t n)
{
	allocates();
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	allocates();
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	allocates();
	return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
	allocates();
	return __libc_memalign(align, n);
}

#pragma GCC visibility pop

static void leave(int sig)
{
	(void)sig;
	exit(LEFT);
}

/* A server whose @n-th allocation is interrupted; it tells by @fd how many there
 * were, if all of them went well. */
static int serve(int fd, void *n)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct sigaction a = { .sa_handler = leave };
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	long first = *(long *)n;

	want_eq(sigaction(SIGURG, &a, NULL), 0);
	until = first;
	channel = rdma_create_event_channel();
	want(channel);
	want_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	want_eq(rdma_listen(id, 1), 0);
	first -= until;
	until = 0;
	want_eq(write(fd, &first, sizeof(first)), sizeof(first));
	return 0;
}

static void exit_in_an_allocation_asks_for_no_memory(int arg)
{
	pid_t server[MOST];
	long n = MOST, made = 0;
	int fd, left = 0;

	(void)arg;
	server[0] = peer_fork(serve, &n, &fd);
	want_eq(read(fd, &made, sizeof(made)), sizeof(made));
	want_eq(peer_wait(server[0]), 0);
	want(made > 0);
	for (n = 1; n <= made; n++) /* side by side: an end may wait for a lock, for a second */
		server[n - 1] = peer_fork(serve, &n, &fd);
	for (n = 0; n < made; n++) {
		int status = peer_wait(server[n]);

		if (status && status != LEFT)
			fail("allocation %ld of %ld: exit status %d", n + 1, made, status);
		left += status == LEFT;
	}
	want(left);
}
#endif

static const struct test_case cases[] = {
	CASE(exit_in_an_allocation_asks_for_no_memory),
};

int main(void)
{
	return CASES_RUN(cases);
}
