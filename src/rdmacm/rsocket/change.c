// SPDX-License-Identifier: MIT
/* Threads that sleep until a socket changes: each on a descriptor of its own, beside those of the
 * sockets, since whoever takes an event from these takes it from all others that wait. */
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "rdmacm/rsocket/sock.h"
#include "util/mutex.h"

enum { KEPT = 64 };

static struct mutex lock = MUTEX_INITIALIZER; /* guards what follows; innermost */
static struct sleeper *sleepers;
static int kept[KEPT]; /* descriptors for the next sleepers */
static unsigned int count;
static pid_t owner; /* of kept: a child makes its own */

int sleeper_begin(struct sleeper *me)
{
	me->fd = -1;
	mutex_lock(&lock);
	if (owner != getpid()) {
		owner = getpid();
		count = 0;
		sleepers = NULL;
	}
	if (count)
		me->fd = kept[--count];
	mutex_unlock(&lock);
	if (me->fd < 0)
		me->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (me->fd < 0)
		return errno;
	mutex_lock(&lock);
	me->next = sleepers;
	sleepers = me;
	mutex_unlock(&lock);
	return 0;
}

void sleeper_end(struct sleeper *me)
{
	struct sleeper **at = &sleepers;
	uint64_t n;
	bool keep;

	mutex_lock(&lock);
	while (*at && *at != me)
		at = &(*at)->next;
	if (*at)
		*at = me->next;
	if (read(me->fd, &n, sizeof(n)) < 0)
		n = 0; /* nobody had rung */
	keep = count < KEPT;
	if (keep)
		kept[count++] = me->fd;
	mutex_unlock(&lock);
	if (!keep)
		close(me->fd);
}

void sock_changed(struct sock *s)
{
	const uint64_t one = 1;

	if (!s->asleep)
		return;
	mutex_lock(&lock);
	for (struct sleeper *p = sleepers; p; p = p->next)
		if (write(p->fd, &one, sizeof(one)) < 0)
			break; /* full: it is readable already */
	mutex_unlock(&lock);
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
