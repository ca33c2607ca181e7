// SPDX-License-Identifier: MIT
#include "hca/event_fd.h"
#include <errno.h>
#include <sched.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "obs/explain.h"
#include "util/barrier.h"
#include "util/log.h"
#include "util/uncancelled.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8 /* linux/fs.h; musl's headers lack it */
#endif

enum { TRIES = 1000, NAPS = 10000 /* of 0.1 ms at least */ };

int event_fd_open(const char *call, int *out)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	if (fd < 0)
		return refuse(errno,
			      "%s: no descriptor for events; raise RLIMIT_NOFILE or close some",
			      call);
	*out = fd;
	return 0;
}

void event_fd_up(int fd)
{
	uint64_t one = 1;
	ssize_t n;

	UNCANCELLED(n, write(fd, &one, sizeof(one)));
	if (n < 0)
		log_warn_once("an event descriptor cannot be written; was it closed?");
}

int event_fd_try(int fd)
{
	uint64_t count;
	struct iovec iov = { &count, sizeof(count) };
	ssize_t n;

	UNCANCELLED(n, preadv2(fd, &iov, 1, -1, RWF_NOWAIT));
	return n < 0 ? errno : 0;
}

int event_fd_look_and_read(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t count;
	ssize_t n;

	UNCANCELLED(n, poll(&p, 1, 0));
	if (n != 1)
		return n ? errno : EAGAIN;
	UNCANCELLED(n, read(fd, &count, sizeof(count)));
	return n < 0 ? errno : 0;
}

static uint32_t awaiting; /* threads in event_fd_await(), of any descriptor; atomic */

/* Before the next try. False: it has been long enough. A thread in event_fd_await() that has the
 * count may have lost its processor. */
static bool wait_for_count(int tries)
{
	static const struct timespec nap = { .tv_nsec = 100000 };
	int n;

	if (tries < TRIES) {
		sched_yield();
		return true;
	}
	if (tries == TRIES + NAPS || !load_relaxed(&awaiting))
		return false;
	UNCANCELLED(n, nanosleep(&nap, NULL));
	(void)n; /* a signal may end it sooner */
	return true;
}

/* A thread in event_fd_await() has a count for a moment, and puts it back without the mutex, so
 * this ends; the bound is for programs that read the descriptor themselves, and for threads that
 * were cancelled there. */
void event_fd_down(int fd)
{
	for (int tries = 0;; tries++) {
		int err = event_fd_try(fd);

		/* Only a thread in event_fd_await() can be faster, and puts the count back. */
		if (err && err != EAGAIN)
			err = event_fd_look_and_read(fd);
		if (!err)
			return;
		if ((err != EAGAIN && err != EINTR) || !wait_for_count(tries)) {
			log_warn_once("an event descriptor was read or closed by the program");
			return;
		}
	}
}

static void awaited(void *unused)
{
	(void)unused;
	fetch_sub_acq_rel(&awaiting, 1);
}

static int await_and_put_back(int fd)
{
	uint64_t one;

	if (read(fd, &one, sizeof(one)) < 0)
		return errno;
	event_fd_up(fd);
	return 0;
}

int event_fd_await(int fd)
{
	int err;

	fetch_add_relaxed(&awaiting, 1); /* before it can have the count */
	pthread_cleanup_push(awaited, NULL);
	err = await_and_put_back(fd);
	pthread_cleanup_pop(1);
	return err;
}
