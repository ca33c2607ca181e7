// SPDX-License-Identifier: MIT
#include "rdmacm/rsocket/service.h"
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "rdmacm/rsocket/now.h"
#include "rdmacm/rsocket/ring.h"
#include "util/own_thread.h"

enum { RETRY = 20, NEVER = -1, DAY = 86400000 }; /* ms */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows; innermost */
static pthread_cond_t looked = PTHREAD_COND_INITIALIZER; /* rounds has grown */
static struct sock *served; /* by svc.next */
static unsigned int count; /* of them */
static unsigned int rounds; /* of the thread: how often it has copied the list */
static bool running;
static int wake_fd = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* --- one socket --- */

/* Whether the backlog has room for more. */
static bool accept_all(struct sock *s)
{
	struct sock **at = &s->svc.accepted;
	unsigned int room = s->svc.backlog;
	bool some = false;

	for (; *at && room; room--)
		at = &(*at)->svc.accepted;
	for (struct sock *made; room && !meet_accept(s, &made); room--) {
		*at = made;
		at = &made->svc.accepted;
		some = true;
	}
	if (some)
		sock_changed(s);
	s->svc.full = !room;
	return room;
}

static int until(uint64_t at, uint64_t now)
{
	uint64_t ms = at > now ? (at - now) / 1000000 + 1 : 0;

	return ms < DAY ? (int)ms : DAY;
}

static int keep_alive(struct sock *s)
{
	uint64_t now = now_ns();

	if (s->svc.probe_at <= now) {
		s->svc.probe_at = now + sock_keep_idle(s);
		sock_progress(s);
		if (s->state == SOCK_OPEN)
			ring_probe(s);
	}
	return until(s->svc.probe_at, now);
}

/* For how many ms @s may be left alone, if *watched stays unreadable. */
static int serve(struct sock *s, struct pollfd *watched)
{
	int left = NEVER;

	*watched = (struct pollfd){ .fd = -1 };
	pthread_mutex_lock(&s->lock);
	if (s->state == SOCK_LISTENING) {
		if (accept_all(s) && !fd_is_readable(s->fd))
			*watched = (struct pollfd){ .fd = s->fd, .events = POLLIN };
		else if (!s->svc.full)
			left = RETRY; /* of descriptors or memory, or too many are refused */
	} else if (s->opt.keepalive && s->state != SOCK_OVER) {
		left = keep_alive(s);
	}
	pthread_mutex_unlock(&s->lock);
	return left;
}

/* --- the thread --- */

struct look {
	struct sock **socks;
	struct pollfd *fds; /* one more: the first is wake_fd */
	unsigned int n, room;
	bool all; /* there was memory for all of them */
};

static void make_room(struct look *l)
{
	unsigned int room = 2 * count + 8;
	struct sock **socks = realloc(l->socks, room * sizeof(struct sock *));
	struct pollfd *fds = NULL;

	if (socks) {
		l->socks = socks;
		fds = realloc(l->fds, (room + 1) * sizeof(*fds));
	}
	if (fds) {
		l->fds = fds;
		l->room = room;
	}
}

static void copy_list(struct look *l)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	if (read(wake_fd, &n, sizeof(n)) < 0)
		n = 0; /* nobody has woken it */
	if (count > l->room)
		make_room(l);
	l->all = count <= l->room;
	l->n = 0;
	for (struct sock *s = served; s && l->n < l->room; s = s->svc.next)
		l->socks[l->n++] = s;
	rounds++;
	pthread_cond_broadcast(&looked);
	pthread_mutex_unlock(&lock);
}

static int sooner(int a, int b)
{
	return a == NEVER || (b != NEVER && b < a) ? b : a;
}

static void *run(void *arg)
{
	struct pollfd wake = { .fd = wake_fd, .events = POLLIN };
	struct look l = { 0 };
	int left;

	for (;;) {
		copy_list(&l);
		left = l.all ? NEVER : RETRY;
		for (unsigned int i = 0; i < l.n; i++)
			left = sooner(left, serve(l.socks[i], &l.fds[i + 1]));
		if (l.n)
			l.fds[0] = wake;
		poll(l.n ? l.fds : &wake, l.n + 1, left);
	}
	return arg;
}

static int start(void)
{
	int err;

	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0)
		return errno;
	err = own_thread_start(0, run, NULL);
	if (err) {
		close(wake_fd);
		wake_fd = -1;
	}
	return err;
}

/* --- forks: the thread is the parent's, and so are the sockets --- */

static void lock_service(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_service(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	if (wake_fd >= 0)
		close(wake_fd);
	wake_fd = -1;
	served = NULL;
	count = 0;
	running = false;
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_service, unlock_service, in_child);
}

/* --- what calls ask for --- */

static void wake(void)
{
	const uint64_t one = 1;

	if (running && write(wake_fd, &one, sizeof(one)) < 0)
		return; /* it is awake */
}

void service_add(struct sock *s)
{
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&lock);
	s->svc.probe_at = now_ns() + sock_keep_idle(s);
	if (!s->svc.served) {
		s->svc.served = true;
		s->svc.next = served;
		served = s;
		count++;
	}
	if (!running)
		running = !start();
	wake();
	pthread_mutex_unlock(&lock);
}

void service_remove(struct sock *s)
{
	struct sock **at = &served;
	unsigned int before;

	pthread_mutex_lock(&lock);
	while (*at && *at != s)
		at = &(*at)->svc.next;
	s->svc.served = true; /* for good: a call of another thread does not add it again */
	if (*at) {
		*at = s->svc.next;
		count--;
		wake();
		for (before = rounds; running && rounds == before;)
			pthread_cond_wait(&looked, &lock);
	}
	pthread_mutex_unlock(&lock);
}

struct sock *service_take(struct sock *s)
{
	struct sock *first = s->svc.accepted;

	if (!first)
		return NULL;
	s->svc.accepted = first->svc.accepted;
	first->svc.accepted = NULL;
	if (s->svc.full)
		service_add(s); /* there is room again */
	return first;
}
