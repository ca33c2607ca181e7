// SPDX-License-Identifier: MIT
/* Cancellation (pthread_cancel) of a program's thread inside the library: with an adapter, posting,
 * polling and arming make no system call, so no program expects that they end its thread. Here they
 * may make one, with turns and locks held. So they disable cancellation around each system call;
 * under a mutex it is disabled by the mutex (mutex.h).
 * ibv_get_cq_event() and ibv_get_async_event() can be cancelled in their sleep, where they hold no
 * lock and no turn. */
#pragma once
#include <pthread.h>
#include <unistd.h>

static inline int uncancelled_begin(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return was;
}

/* @was: what uncancelled_begin() has returned. Keeps errno. */
static inline void uncancelled_end(int was)
{
	pthread_setcancelstate(was, NULL);
}

static inline void uncancelled_close(int fd)
{
	int was = uncancelled_begin();

	close(fd);
	uncancelled_end(was);
}

/* result = call, without a cancellation point. */
#define UNCANCELLED(result, call)                                                                  \
	do {                                                                                       \
		int was_ = uncancelled_begin();                                                    \
		(result) = (call);                                                                 \
		uncancelled_end(was_);                                                             \
	} while (0)
