// SPDX-License-Identifier: MIT
/* Mutexes under which system calls are made. Their holder is not cancelled (uncancelled.h): a
 * thread that ended with one would keep it for ever. They are given back in the reverse order, so
 * that the program's own state of cancellation comes back with the last. */
#pragma once
#include <pthread.h>
#include "util/uncancelled.h"

struct mutex {
	pthread_mutex_t lock;
	int was; /* the holder's state of cancellation before; under the lock */
};

#define MUTEX_INITIALIZER                                                                          \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER                                                  \
	}

static inline void mutex_init(struct mutex *m)
{
	pthread_mutex_init(&m->lock, NULL);
}

static inline void mutex_destroy(struct mutex *m)
{
	pthread_mutex_destroy(&m->lock);
}

static inline void mutex_lock(struct mutex *m)
{
	int was = uncancelled_begin();

	pthread_mutex_lock(&m->lock);
	m->was = was;
}

/* 0: it is the caller's now. */
static inline int mutex_trylock(struct mutex *m)
{
	int was = uncancelled_begin(), err = pthread_mutex_trylock(&m->lock);

	if (err)
		uncancelled_end(was);
	else
		m->was = was;
	return err;
}

static inline int mutex_timedlock(struct mutex *m, const struct timespec *until)
{
	int was = uncancelled_begin(), err = pthread_mutex_timedlock(&m->lock, until);

	if (err)
		uncancelled_end(was);
	else
		m->was = was;
	return err;
}

static inline void mutex_unlock(struct mutex *m)
{
	int was = m->was;

	pthread_mutex_unlock(&m->lock);
	uncancelled_end(was);
}

/* pthread_cond_wait(), which is no point of cancellation here. */
static inline void mutex_wait(struct mutex *m, pthread_cond_t *cond)
{
	int was = m->was;

	pthread_cond_wait(cond, &m->lock);
	m->was = was; /* other threads have had the mutex meanwhile */
}
