// SPDX-License-Identifier: MIT
/* Threads of the library's own: detached, and no signal of the program comes to them. Faults do: a
 * thread that blocks SIGSEGV keeps doorbells from being trapped (util/page_trap.h). */
#pragma once
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* Bytes of a stack of which @stack are left to the thread. glibc takes the variables of threads
 * (__thread), of the program's and of all libraries, out of the stack, and says in a function for
 * other runtimes how much that is. 0: not known. */
static inline size_t own_thread_stack(const pthread_attr_t *attr, size_t stack)
{
#ifdef __GLIBC__
	size_t (*least)(const pthread_attr_t *);

	*(void **)&least = dlsym(RTLD_DEFAULT, "__pthread_get_minstack");
	return least ? least(attr) + stack : 0;
#else
	(void)attr;
	return stack;
#endif
}

/* @stack: bytes that the thread needs; 0: a stack as the system has it. 0 or a positive errno, as
 * of pthread_create(). */
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
		stack = own_thread_stack(&attr, stack);
	if (stack)
		pthread_attr_setstacksize(&attr, stack);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return err;
}
