// SPDX-License-Identifier: MIT
/* A thread whose cancellation is pending: the first point of cancellation ends it. */
#pragma once
#include <pthread.h>
#include "verbs/cases.h"

/* From here on each point of cancellation is this thread's end. */
static inline void be_cancelled(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(was, NULL);
}

static inline void run_cancelled(void *(*f)(void *))
{
	pthread_t t;
	void *end;

	want_eq(pthread_create(&t, NULL, f, NULL), 0);
	want_eq(pthread_join(t, &end), 0);
}
