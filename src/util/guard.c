// SPDX-License-Identifier: MIT
#include "util/guard.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include "util/barrier.h"
#include "util/fork.h"
#include "util/guard_asm.h"
#include "util/guard_trap.h"
#include "util/mutex.h"
#include "util/uncancelled.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older headers lack it */
#endif

enum { LINE = 64, WORD = 8 };

static struct mutex lock = MUTEX_INITIALIZER; /* guards the traps, and opening mem */
static bool ready;
uint32_t guard_cpu;

/* A descriptor of this process's memory; a forked child opens its own. */
static struct {
	int fd;
	uint32_t epoch; /* epoch of the process that opened it; 0: none (A) */
} mem = { .fd = -1 };

/* Set when this thread was seen with both signals open: its mask is looked at once. */
static __thread bool trusted __attribute__((tls_model("initial-exec")));

static void lock_take(void)
{
	mutex_lock(&lock);
}

static void lock_drop(void)
{
	mutex_unlock(&lock);
}

/* A child that gives up its rights shall not have the parent's memory open. */
static void child_start(void)
{
	if (mem.fd >= 0)
		close(mem.fd);
	mem.fd = -1;
	mem.epoch = 0;
	lock_drop();
}

static uint32_t cpu_find(void)
{
	uint32_t found = 0;
#if defined(__x86_64__)
	unsigned int eax, ebx, ecx, edx;

	if (__builtin_cpu_supports("avx2"))
		found |= GUARD_CPU_WIDE;
	if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && ebx >> 9 & 1)
		found |= GUARD_CPU_STRING; /* ERMS */
#endif
	return found;
}

int guard_init(void)
{
	int err = 0;

	lock_take();
	if (!ready) {
		guard_cpu = cpu_find();
		err = fork_init();
		if (!err)
			err = pthread_atfork(lock_take, lock_drop, child_start);
		if (!err)
			err = guard_trap_set();
		store_relaxed(&ready, !err);
	}
	lock_drop();
	return err;
}

void guard_recheck(void)
{
	if (!load_relaxed(&ready) || mutex_trylock(&lock))
		return; /* the thread that has the lock does it */
	guard_trap_set();
	lock_drop();
}

static int mem_open(void)
{
	lock_take();
	if (!fork_is_ours(mem.epoch)) {
		int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

		if (mem.fd >= 0)
			close(mem.fd); /* it shows the parent's memory */
		store_relaxed(&mem.fd, fd);
		store_release(&mem.epoch, fd < 0 ? 0 : fork_epoch()); /* (A) */
	}
	lock_drop();
	return mem.fd;
}

static int mem_fd(void)
{
	if (likely(fork_is_ours(load_acquire(&mem.epoch)))) /* (A) */
		return load_relaxed(&mem.fd);
	return fork_init() ? -1 : mem_open();
}

/* Bytes up to the next multiple of @unit, a power of two, at least 1 */
static size_t to_next(uintptr_t addr, size_t unit)
{
	return unit - (addr & (unit - 1));
}

/* Through the kernel: a destination piece is one iovec and is stored before the next one; the
 * last line is cut into aligned words. */
static int mem_copy(uintptr_t dst, uintptr_t src, size_t n, size_t last)
{
	struct iovec iov[2 + LINE / WORD];
	unsigned int used = 0;
	size_t done = 0, left = n;
	ssize_t got;

	while (done < n) {
		size_t step = left > last ? left - last : to_next(dst + done, WORD);

		step = step < left ? step : left;
		iov[used++] = (struct iovec){ (void *)(dst + done), step };
		done += step;
		left -= step;
	}
	UNCANCELLED(got, preadv(mem_fd(), iov, (int)used, (off_t)src));
	return got < 0 || (size_t)got != n ? EFAULT : 0;
}

/* The kernel moves at most 2 GiB at a time. */
static int mem_copy_all(void *dst, const void *src, size_t n, size_t last)
{
	enum { PIECE = 1 << 30 };
	size_t done = 0;
	int err = 0;

	for (; !err && n - done > PIECE; done += PIECE)
		err = mem_copy((uintptr_t)dst + done, (uintptr_t)src + done, PIECE, 0);
	return err ? err : mem_copy((uintptr_t)dst + done, (uintptr_t)src + done, n - done, last);
}

static bool trust(void)
{
	trusted = guard_trap_open();
	return trusted;
}

static bool may_fault(void)
{
	return likely(trusted) || trust();
}

/* How many of the @n bytes at @dst lie in the line of the last one; all of them when it is less. */
static size_t last_line(const void *dst, size_t n)
{
	size_t in_line = (((uintptr_t)dst + n - 1) & (LINE - 1)) + 1;

	return n < in_line ? n : in_line;
}

#if GUARD_ASM
static int asm_copy(char *dst, const char *src, size_t n, size_t last)
{
	if (n > last && guard_asm_bulk(dst, src, n - last))
		return EFAULT;
	/* all of the message, the pieces before this one too, is seen before the last line: pairs
	 * with a reader that loads the last byte before the rest */
	write_barrier();
	return guard_asm_line(dst + (n - last), src + (n - last), last);
}

/* This thread blocks the signals. Where the memory cannot be opened (no descriptor is free, the
 * process has given up its rights, there is no /proc) they are unblocked for the copy. */
static int blocked_copy(void *dst, const void *src, size_t n, size_t last)
{
	uint64_t mask;
	int fd, err;

	UNCANCELLED(fd, mem_fd());
	if (fd >= 0 || guard_trap_unblock(&mask))
		return mem_copy_all(dst, src, n, last);
	err = last ? asm_copy(dst, src, n, last) : guard_asm_bulk(dst, src, n);
	guard_trap_restore(mask);
	return err;
}

int guard_copy(void *dst, const void *src, size_t n)
{
	size_t last = last_line(dst, n);

	return may_fault() ? asm_copy(dst, src, n, last) : blocked_copy(dst, src, n, last);
}

int guard_copy_unordered(void *dst, const void *src, size_t n)
{
	return may_fault() ? guard_asm_bulk(dst, src, n) : blocked_copy(dst, src, n, 0);
}

#define locked_fetch_add guard_asm_fetch_add
#define locked_cmp_swap	 guard_asm_cmp_swap
#else
int guard_copy(void *dst, const void *src, size_t n)
{
	return mem_copy_all(dst, src, n, last_line(dst, n));
}

int guard_copy_unordered(void *dst, const void *src, size_t n)
{
	return mem_copy_all(dst, src, n, 0);
}

static int locked_fetch_add(uint64_t *addr, uint64_t add, uint64_t *old)
{
	*old = fetch_add_acq_rel(addr, add);
	return 0;
}

static int locked_cmp_swap(uint64_t *addr, uint64_t compare, uint64_t swap, uint64_t *old)
{
	*old = compare;
	cas_acq_rel(addr, old, swap);
	return 0;
}
#endif

/* Only the instruction itself is atomic, so a thread in which the signals are blocked opens them
 * for it. Without handlers the page is made writable first, or refused; it may still be unmapped in
 * between. */
static int locked_begin(uint64_t *addr, uint64_t *mask)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *start = (char *)addr - ((uintptr_t)addr & (page - 1));

	if (!guard_trap_unblock(mask))
		return 0;
	*mask = 0;
	return madvise(start, page, MADV_POPULATE_WRITE) ? EFAULT : 0;
}

static void locked_end(uint64_t mask)
{
	if (mask)
		guard_trap_restore(mask);
}

int guard_fetch_add(uint64_t *addr, uint64_t add, uint64_t *old)
{
	uint64_t mask;
	int err;

	if (may_fault())
		return locked_fetch_add(addr, add, old);
	err = locked_begin(addr, &mask);
	if (err)
		return err;
	err = locked_fetch_add(addr, add, old);
	locked_end(mask);
	return err;
}

int guard_cmp_swap(uint64_t *addr, uint64_t compare, uint64_t swap, uint64_t *old)
{
	uint64_t mask;
	int err;

	if (may_fault())
		return locked_cmp_swap(addr, compare, swap, old);
	err = locked_begin(addr, &mask);
	if (err)
		return err;
	err = locked_cmp_swap(addr, compare, swap, old);
	locked_end(mask);
	return err;
}
