// SPDX-License-Identifier: MIT
/* Words shared between threads and processes: named wrappers over the compiler's atomic
 * builtins. They take a pointer to a plain integer or pointer, so shared structs keep plain
 * types and a layout that another process can map. Every acquire names its release in a comment
 * where it is used. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The object of @type whose @member is at @ptr; a @ptr of another type than @member warns. */
#define container_of(ptr, type, member)                                                            \
	((type *)((char *)(ptr)-offsetof(type, member) -                                           \
		  0 * sizeof(1 ? (ptr) : &((type *)0)->member)))

#define load_relaxed(p)	    __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p)	    __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define load_seq_cst(p)	    __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

/* Read-modify-write; each returns the old value. */
#define xchg_acquire(p, v)	__atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define xchg_acq_rel(p, v)	__atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define fetch_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define fetch_add_acq_rel(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define fetch_sub_acq_rel(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_ACQ_REL)
#define fetch_or_acq_rel(p, v)	__atomic_fetch_or((p), (v), __ATOMIC_ACQ_REL)
#define fetch_and_acq_rel(p, v) __atomic_fetch_and((p), (v), __ATOMIC_ACQ_REL)

/* True when *@p was *@expected and is @v now; else *@expected is the value that was found. */
#define cas_acq_rel(p, expected, v)                                                                \
	__atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
/* Ordered before a load_seq_cst() that follows. When another thread stores the word of that load,
 * fences and loads *@p, then this thread sees its store, or that thread sees @v. */
#define cas_seq_cst(p, expected, v)                                                                \
	__atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

#ifdef __SANITIZE_THREAD__
/* The sanitizer does not see fences: code that relies on one keeps its words atomic as well. */
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* Every earlier access before every later one, also an earlier store before a later load. */
static inline void full_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* The same right behind a sequentially consistent read-modify-write, which on x86 is a full fence
 * already. */
static inline void full_fence_after_rmw(void)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
	full_fence();
#endif
}

/* Stores @v as store_release() and full_fence() do, by one instruction where there is one. */
static inline void store_fenced(uint32_t *p, uint32_t v)
{
	__atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
	full_fence_after_rmw();
}

/* Fetches the cache line of @p for a store. For plain x86-64 the compiler turns
 * __builtin_prefetch() into a fetch for reading, and the store that follows waits for the other
 * core all the same. Every x86-64 accepts PREFETCHW, if only as a no-op. */
static inline void prefetch_to_write(const void *p)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/* Earlier loads before all later accesses: before a reader loads a sequence number again. */
static inline void read_barrier(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/* All earlier accesses before later stores: before the store that publishes. */
static inline void write_barrier(void)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* Between begin and end ThreadSanitizer checks none of this thread's accesses: they touch bytes
 * that another process orders, between the thread that moves them and the program that reads
 * them. */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

static inline void foreign_order_begin(void)
{
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

static inline void foreign_order_end(void)
{
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
static inline void foreign_order_begin(void)
{
}
static inline void foreign_order_end(void)
{
}
#endif
