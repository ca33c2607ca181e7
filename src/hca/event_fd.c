// SPDX-License-Identifier: MIT
#include "hca/event_fd.h"
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "obs/explain.h"
#include "util/log.h"
#include "util/uncancelled.h"

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

/* A thread in event_fd_await() has a count for a moment, and puts it back without the mutex, so
 * this ends; the bound is for programs that read the descriptor themselves. */
void event_fd_down(int fd)
{
	uint64_t one;
	ssize_t n;

	for (int tries = 0;; tries++) {
		UNCANCELLED(n, read(fd, &one, sizeof(one)));
		if (n >= 0)
			return;
		if ((errno != EAGAIN && errno != EINTR) || tries == 1000) {
			log_warn_once("an event descriptor was read or closed by the program");
			return;
		}
		sched_yield();
	}
}

int event_fd_await(int fd)
{
	uint64_t one;

	if (read(fd, &one, sizeof(one)) < 0)
		return errno;
	event_fd_up(fd);
	return 0;
}
