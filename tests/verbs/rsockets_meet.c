// SPDX-License-Identifier: MIT
/* Sockets over RDMA whose connections are about to open: the client's RTU is lost, or late. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/sockets.h"

enum { MAD = 256, CLASS = 1, ATTRIBUTE = 16, OF_CM = 7, RTU = 0x14, SOME = 100 };

/* --- the RTU --- */

static struct {
	bool held; /* atomic */
	int fd; /* of its connection */
	uint8_t message[2 * MAD];
	size_t len;
} rtu;

/* The MAD is the last part of a message between processes of a host. */
static bool is_rtu(const uint8_t *m, size_t n)
{
	const uint8_t *mad = m + n - MAD;

	return n > MAD && n <= sizeof(rtu.message) && mad[CLASS] == OF_CM &&
	       (mad[ATTRIBUTE] << 8 | mad[ATTRIBUTE + 1]) == RTU;
}

/* Stands in place of the C library's. */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *m, size_t n, int flags)
{
	if (__atomic_load_n(&rtu.held, __ATOMIC_ACQUIRE) && is_rtu(m, n)) {
		rtu.fd = fd;
		rtu.len = n;
		memcpy(rtu.message, m, n);
		return (ssize_t)n;
	}
	return syscall(SYS_sendto, fd, m, n, flags, NULL, 0);
}

/* The next one is kept back until rtu_leaves(). */
static void hold_rtu(void)
{
	__atomic_store_n(&rtu.held, true, __ATOMIC_RELEASE);
}

static void rtu_leaves(void)
{
	want(rtu.len);
	syscall(SYS_sendto, rtu.fd, rtu.message, rtu.len, MSG_NOSIGNAL, NULL, 0);
}

/* --- a thread --- */

static struct {
	pid_t thread; /* atomic */
	int done; /* atomic */
	int fd;
} ending;

static void *closes(void *arg)
{
	int ret;

	__atomic_store_n(&ending.thread, gettid(), __ATOMIC_RELEASE);
	ret = arg ? rshutdown(ending.fd, SHUT_WR) : rclose(ending.fd);
	__atomic_store_n(&ending.done, 1, __ATOMIC_RELEASE);
	return (void *)(intptr_t)(ret ? errno : 0);
}

/* --- cases --- */

/* For the client the connection is open; of the server's end there is nothing but an answer. */
static void half_open(int *near, int *far)
{
	struct sockaddr_in at;
	int l = listener(&at);

	hold_rtu();
	*near = rsocket(AF_INET, SOCK_STREAM, 0);
	want_eq(rconnect(*near, (struct sockaddr *)&at, sizeof(at)), 0);
	*far = raccept(l, NULL, NULL);
	want(*far >= 0);
	want_eq(rclose(l), 0);
}

/* What the client has sent is there, and then the end, though nothing has said that the connection
 * is open. */
static void ended_without_an_rtu(int arg)
{
	static const char sent[SOME] = "to be read";
	char got[2 * SOME];
	int near, far;

	(void)arg;
	half_open(&near, &far);
	want_eq(rsend(near, sent, sizeof(sent), 0), SOME);
	want_eq(rclose(near), 0);
	want_eq(rrecv(far, got, sizeof(got), 0), SOME);
	want(!memcmp(got, sent, sizeof(sent)));
	want_eq(rrecv(far, got, sizeof(got), 0), 0);
	want_eq(rclose(far), 0);
}

/* What raccept() has returned can be closed, or half of it, at once: the client hears of no more
 * than the end. */
static void ended_before_it_is_open(int half)
{
	char got[SOME];
	int near, far;
	pthread_t t;
	void *err;

	half_open(&near, &far);
	ending.fd = far;
	want_eq(pthread_create(&t, NULL, closes, half ? &half : NULL), 0);
	until_asleep_or(stat_of(&ending.thread), &ending.done);
	rtu_leaves();
	want_eq(pthread_join(t, &err), 0);
	want_eq((intptr_t)err, 0);
	want_eq(rrecv(near, got, sizeof(got), 0), 0);
	if (half) {
		want_eq(rsend(near, "x", 1, 0), 1);
		want_eq(rrecv(far, got, sizeof(got), 0), 1);
		want_eq(rclose(far), 0);
	}
	want_eq(rclose(near), 0);
}

int main(void)
{
	const struct test_case list[] = {
		CASE(ended_without_an_rtu),
		CASE_ARG(ended_before_it_is_open, 0),
		CASE_ARG(ended_before_it_is_open, 1),
	};

	return CASES_RUN(list);
}
