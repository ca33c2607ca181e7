// SPDX-License-Identifier: MIT
/* Waiting for sockets and plain descriptors together. */
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include "rdmacm/rsocket/sock.h"
#include "util/uncancelled.h"

enum { IN = POLLIN | POLLRDNORM, OUT = POLLOUT | POLLWRNORM, FEW = 32 };

struct looked { /* one rpoll() */
	struct pollfd *fds;
	nfds_t n;
	struct sock **socks; /* n; NULL: a plain descriptor */
	struct pollfd *real; /* 2 n + 1 at most: what the kernel is asked */
	nfds_t n_real;
	struct sleeper me;
	int was; /* the program's state of cancellation */
	int err; /* of the sleep */
};

static short events_of(struct sock *s)
{
	short ev = 0;

	if (s->state == SOCK_NEW && !s->dgram)
		return OUT | POLLHUP;
	if (s->state == SOCK_LISTENING)
		return sock_holds(s, AWAIT_REQUEST) ? IN : 0;
	if (meet_underway(s))
		return 0;
	if (sock_holds(s, AWAIT_READABLE))
		ev |= IN;
	if (sock_holds(s, AWAIT_WRITABLE))
		ev |= OUT;
	if (s->state == SOCK_OVER && (s->err || !s->have)) /* after the last byte, as TCP's end */
		ev |= POLLHUP;
	return (short)(ev | (s->so_error ? POLLERR : 0));
}

static bool look_at_sock(struct sock *s, struct pollfd *p, bool arm)
{
	short wanted = (short)(p->events | POLLERR | POLLHUP);

	pthread_mutex_lock(&s->lock);
	if (arm)
		sock_arm(s);
	sock_progress(s);
	p->revents = (short)(events_of(s) & wanted);
	if (!p->revents && !arm && meet_look(s))
		p->revents = (short)(events_of(s) & wanted);
	pthread_mutex_unlock(&s->lock);
	return p->revents;
}

/* How many are ready; @arm: those that are not will make their descriptors readable. */
static int look(struct looked *l, bool arm)
{
	int ready = 0;

	for (nfds_t i = 0; i < l->n; i++) {
		struct pollfd *p = &l->fds[i];

		p->revents = 0;
		if (l->socks[i])
			ready += look_at_sock(l->socks[i], p, arm);
		else if (p->fd >= 0 && poll(p, 1, 0) == 1)
			ready++;
	}
	return ready;
}

static void expect(struct sock *s, int asleep)
{
	pthread_mutex_lock(&s->lock);
	s->asleep += (unsigned int)asleep;
	if (asleep < 0)
		sock_drain(s);
	pthread_mutex_unlock(&s->lock);
}

static void expect_all(struct looked *l, int asleep)
{
	for (nfds_t i = 0; i < l->n; i++)
		if (l->socks[i])
			expect(l->socks[i], asleep);
}

static void list_one(struct looked *l, int fd, short events)
{
	if (fd >= 0)
		l->real[l->n_real++] = (struct pollfd){ .fd = fd, .events = events };
}

/* Before the kernel is asked. It takes no more entries than there may be descriptors, and counts
 * those of none. */
static void list_descriptors(struct looked *l)
{
	l->n_real = 0;
	for (nfds_t i = 0; i < l->n; i++) {
		struct sock *s = l->socks[i];

		if (!s) {
			list_one(l, l->fds[i].fd, l->fds[i].events);
			continue;
		}
		list_one(l, s->fd, POLLIN);
		list_one(l, sock_event_fd(s), POLLIN);
	}
	list_one(l, l->me.fd, POLLIN);
}

static void awake(struct looked *l)
{
	expect_all(l, -1);
	sleeper_end(&l->me);
}

static void give_back(struct looked *l)
{
	for (nfds_t i = 0; l->socks && i < l->n; i++)
		if (l->socks[i])
			sock_unref(l->socks[i]);
	if (l->n > FEW) {
		free(l->socks);
		free(l->real);
	}
	uncancelled_end(l->was);
}

/* pthread_cancel() while it sleeps. */
static void cancelled(void *arg)
{
	awake(arg);
	give_back(arg);
}

/* The one point of cancellation. */
static void sleep_in(struct looked *l, const struct timespec *left)
{
	pthread_cleanup_push(cancelled, l);
	uncancelled_end(l->was);
	if (ppoll(l->real, l->n_real, left, NULL) < 0)
		l->err = errno;
	uncancelled_begin();
	pthread_cleanup_pop(0);
}

static int sleep_on_all(struct looked *l, const struct timespec *left)
{
	static const struct timespec nap = { .tv_nsec = NAP * 1000000 };

	l->err = 0;
	if (!sleeper_begin(&l->me) && (!left || left->tv_sec || left->tv_nsec > nap.tv_nsec))
		left = &nap;
	expect_all(l, 1);
	if (!look(l, true)) {
		list_descriptors(l);
		sleep_in(l, left);
	}
	awake(l);
	return l->err;
}

/* What is left until @end; false: nothing. */
static bool time_left(const struct timespec *end, struct timespec *left)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	left->tv_sec = end->tv_sec - now.tv_sec;
	left->tv_nsec = end->tv_nsec - now.tv_nsec;
	if (left->tv_nsec < 0) {
		left->tv_nsec += 1000000000;
		left->tv_sec--;
	}
	return left->tv_sec >= 0 && (left->tv_sec || left->tv_nsec);
}

/* @timeout: ms, negative: without end. */
static int wait_for_one(struct looked *l, int64_t timeout, int *ready)
{
	struct timespec end, left;
	uint64_t since = 0;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	if (timeout > 0) {
		end.tv_sec += timeout / 1000;
		end.tv_nsec += timeout % 1000 * 1000000;
		if (end.tv_nsec >= 1000000000) {
			end.tv_nsec -= 1000000000;
			end.tv_sec++;
		}
	}
	for (;;) {
		*ready = look(l, false);
		if (*ready || err || !timeout)
			return *ready ? 0 : err;
		if (timeout > 0 && !time_left(&end, &left))
			return 0;
		if (!spin_is_over(&since))
			continue;
		err = sleep_on_all(l, timeout > 0 ? &left : NULL);
		since = 0;
	}
}

/* -1 and errno, or how many are ready. */
static int poll_for(struct pollfd *fds, nfds_t nfds, int64_t timeout)
{
	struct sock *few_socks[FEW];
	struct pollfd few_real[2 * FEW + 1];
	struct looked l = { .fds = fds,
			    .n = nfds,
			    .socks = few_socks,
			    .real = few_real,
			    .was = uncancelled_begin() };
	int err = 0, ready = 0;

	if (nfds > FEW) {
		l.socks = calloc(nfds, sizeof(struct sock *));
		l.real = calloc(2 * nfds + 1, sizeof(struct pollfd));
		err = l.socks && l.real ? 0 : ENOMEM;
	}
	if (!err) {
		for (nfds_t i = 0; i < nfds; i++)
			l.socks[i] = sock_find(fds[i].fd);
		err = wait_for_one(&l, timeout, &ready);
	}
	give_back(&l);
	return err ? minus1_errno(err) : ready;
}

EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return nfds && !fds ? minus1_errno(EFAULT) : poll_for(fds, nfds, timeout);
}

/* --- rselect --- */

static struct pollfd of_sets(int fd, const fd_set *r, const fd_set *w, const fd_set *x)
{
	struct pollfd p = { .fd = -1 };

	if (r && FD_ISSET(fd, r))
		p.events |= POLLIN;
	if (w && FD_ISSET(fd, w))
		p.events |= POLLOUT;
	if (x && FD_ISSET(fd, x))
		p.events |= POLLPRI;
	if (p.events)
		p.fd = fd;
	return p;
}

static int set_if(int fd, fd_set *set, bool is)
{
	if (!set)
		return 0;
	is = is && FD_ISSET(fd, set);
	if (!is)
		FD_CLR(fd, set);
	return is;
}

static int to_sets(const struct pollfd *p, int n, fd_set *r, fd_set *w, fd_set *x)
{
	int bits = 0;

	for (int i = 0; i < n; i++) {
		short ev = p[i].fd < 0 ? 0 : p[i].revents;

		bits += set_if(i, r, ev & (POLLIN | POLLHUP | POLLERR));
		bits += set_if(i, w, ev & (POLLOUT | POLLERR));
		bits += set_if(i, x, ev & POLLPRI);
	}
	return bits;
}

/* As select(2): what is negative is no time, and microseconds may be seconds. */
static int milliseconds(const struct timeval *t, int64_t *out)
{
	*out = -1;
	if (!t)
		return 0;
	if (t->tv_sec < 0 || t->tv_usec < 0)
		return softhca_refuse(EINVAL,
				      "rselect: a timeout of %lld s and %lld us; give none below "
				      "0, or NULL to wait without end",
				      (long long)t->tv_sec, (long long)t->tv_usec);
	*out = INT64_MAX / 1000; /* more than a clock will ever count */
	if (t->tv_sec < *out / 2000)
		*out = t->tv_sec * 1000 + t->tv_usec / 1000 + (t->tv_usec % 1000 > 0);
	return 0;
}

EXPORT int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		   struct timeval *timeout)
{
	struct pollfd p[FD_SETSIZE];
	int64_t ms;
	int err, ret;

	if (nfds < 0 || nfds > FD_SETSIZE)
		return minus1_errno(EINVAL);
	err = milliseconds(timeout, &ms);
	if (err)
		return minus1_errno(err);
	for (int i = 0; i < nfds; i++)
		p[i] = of_sets(i, readfds, writefds, exceptfds);
	ret = poll_for(p, (nfds_t)nfds, ms);
	if (ret < 0)
		return ret;
	for (int i = 0; i < nfds; i++)
		if (p[i].fd >= 0 && p[i].revents & POLLNVAL)
			return minus1_errno(EBADF);
	return to_sets(p, nfds, readfds, writefds, exceptfds);
}
