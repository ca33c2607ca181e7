// SPDX-License-Identifier: MIT
/* Threads that sleep until a socket changes: each on a descriptor of its own, beside those of the
 * sockets, since whoever takes an event from these takes it from all others that wait. */
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "rdmacm/rsocket/sock.h"

enum { KEPT = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows; innermost */
static struct sleeper *sleepers;
static int kept[KEPT]; /* descriptors for the next sleepers */
static unsigned int count;
static pid_t owner; /* of kept: a child makes its own */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void lock_take(void)
{
	pthread_mutex_lock(&lock);
}

static void lock_drop(void)
{
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_take, lock_drop, lock_drop);
}

bool sleeper_begin(struct sleeper *me)
{
	pthread_once(&once, watch_forks);
	me->fd = -1;
	pthread_mutex_lock(&lock);
	if (owner != getpid()) {
		owner = getpid();
		count = 0;
		sleepers = NULL;
	}
	if (count)
		me->fd = kept[--count];
	pthread_mutex_unlock(&lock);
	if (me->fd < 0)
		me->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (me->fd < 0)
		return false;
	pthread_mutex_lock(&lock);
	me->next = sleepers;
	sleepers = me;
	pthread_mutex_unlock(&lock);
	return true;
}

void sleeper_end(struct sleeper *me)
{
	struct sleeper **at = &sleepers;
	uint64_t n;
	bool keep;

	if (me->fd < 0)
		return;
	pthread_mutex_lock(&lock);
	while (*at && *at != me)
		at = &(*at)->next;
	if (*at)
		*at = me->next;
	if (read(me->fd, &n, sizeof(n)) < 0)
		n = 0; /* nobody had rung */
	keep = count < KEPT;
	if (keep)
		kept[count++] = me->fd;
	pthread_mutex_unlock(&lock);
	if (!keep)
		close(me->fd);
}

void sock_changed(struct sock *s)
{
	const uint64_t one = 1;

	if (!s->asleep)
		return;
	pthread_mutex_lock(&lock);
	for (struct sleeper *p = sleepers; p; p = p->next)
		if (write(p->fd, &one, sizeof(one)) < 0)
			break; /* full: it is readable already */
	pthread_mutex_unlock(&lock);
}

void sock_end(struct sock *s, int err)
{
	if (s->state == SOCK_OVER)
		return;
	s->state = SOCK_OVER;
	s->err = err;
	s->so_error = err;
	s->can_write = false;
	s->can_read = false;
	sock_changed(s);
}
