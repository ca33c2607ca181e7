// SPDX-License-Identifier: MIT
/* fork() beside what a sanitizer does in another thread; a part of tests that are built with one.
 *
 * ThreadSanitizer has pages of its own for those of a program. When many of these are unmapped it
 * unmaps its own and maps new ones: a child that is forked in between has a hole there, and ends in
 * SIGSEGV when it gets that memory. AddressSanitizer (that of gcc 12) leaves the locks of its
 * allocator alone: a child that is forked while another thread has one waits for it for ever.
 * So these calls of other threads come before a fork() or behind it. The lock orders nothing that
 * ThreadSanitizer sees. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define UNSEEN	__attribute__((no_sanitize("thread", "address", "undefined")))
#define INSTEAD __attribute__((visibility("default"))) UNSEEN

static bool forking;
static unsigned int n_inside; /* threads */
static _Thread_local unsigned int depth;

UNSEEN static void enter(void)
{
	if (depth++) /* a handler of a signal, or of the fork itself */
		return;
	while (__atomic_add_fetch(&n_inside, 1, __ATOMIC_SEQ_CST),
	       __atomic_load_n(&forking, __ATOMIC_SEQ_CST)) {
		__atomic_sub_fetch(&n_inside, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&forking, __ATOMIC_SEQ_CST))
			sched_yield();
	}
}

UNSEEN static void leave(void)
{
	if (!--depth)
		__atomic_sub_fetch(&n_inside, 1, __ATOMIC_RELEASE);
}

UNSEEN static void fork_begins(void)
{
	while (__atomic_test_and_set(&forking, __ATOMIC_SEQ_CST))
		sched_yield();
	while (__atomic_load_n(&n_inside, __ATOMIC_SEQ_CST))
		sched_yield();
	depth++;
}

UNSEEN static void fork_ended(void)
{
	depth--;
	__atomic_clear(&forking, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(fork_begins, fork_ended, fork_ended);
}

/* The call of that name, between enter() and leave(). */
#define APART(type, name, parameters, arguments)                                                   \
	type __interceptor_##name parameters;                                                      \
                                                                                                   \
	INSTEAD type name parameters                                                               \
	{                                                                                          \
		type ret;                                                                          \
                                                                                                   \
		enter();                                                                           \
		ret = __interceptor_##name arguments;                                              \
		leave();                                                                           \
		return ret;                                                                        \
	}

#ifdef __SANITIZE_THREAD__
APART(int, munmap, (void *at, size_t bytes), (at, bytes))
#else
APART(void *, malloc, (size_t n), (n))
APART(void *, calloc, (size_t n, size_t each), (n, each))
APART(void *, realloc, (void *p, size_t n), (p, n))
APART(void *, aligned_alloc, (size_t to, size_t n), (to, n))
APART(int, posix_memalign, (void **p, size_t to, size_t n), (p, to, n))

void __interceptor_free(void *p);

INSTEAD void free(void *p)
{
	enter();
	__interceptor_free(p);
	leave();
}
#endif
