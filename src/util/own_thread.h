// SPDX-License-Identifier: MIT
/* Threads of the library's own: detached, and no signal of the program comes to them. Faults do: a
 * thread that blocks SIGSEGV keeps doorbells from being trapped (util/page_trap.h). */
#pragma once
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* @stack: bytes; 0: as the system has it. 0 or a positive errno, as of pthread_create(). */
static inline int own_thread_start(size_t stack, void *(*run)(void *), void *arg)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (stack)
		pthread_attr_setstacksize(&attr, stack);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return err;
}
