// SPDX-License-Identifier: MIT
#include "verbs/failing.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The C library declares addresses as unions, and dlsym() finds functions. */
#pragma GCC diagnostic ignored "-Wpedantic"

/* Functions of this file are found by the libraries, though programs hide theirs. */
#pragma GCC visibility push(default)

enum { LIBRARIES = 8, DESCRIPTORS = 1024 };

static struct {
	uintptr_t from, to;
} library[LIBRARIES]; /* their code */
static int n_libraries;
static int kind = -1; /* enum failing_kind; -1: nothing is counted; stored last, with release */
static long counted, target; /* the first is atomic */
static const char *failed;
static bool made[DESCRIPTORS]; /* by eventfd(), perhaps closed since; atomic */

/* --- who calls --- */

static int note_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const names[] = { "libibverbs.so", "libmlx5.so", "librdmacm.so",
					     "libmnl.so" };
	const ElfW(Phdr) * p;

	(void)size;
	(void)arg;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strstr(info->dlpi_name, names[i]))
			continue;
		for (p = info->dlpi_phdr; p < info->dlpi_phdr + info->dlpi_phnum; p++) {
			if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) ||
			    n_libraries == LIBRARIES)
				continue;
			library[n_libraries].from = info->dlpi_addr + p->p_vaddr;
			library[n_libraries++].to = info->dlpi_addr + p->p_vaddr + p->p_memsz;
		}
	}
	return 0;
}

static bool of_library(const void *caller)
{
	for (int i = 0; i < n_libraries; i++)
		if ((uintptr_t)caller >= library[i].from && (uintptr_t)caller < library[i].to)
			return true;
	return false;
}

/* Does this call of @name fail? */
static bool due(enum failing_kind k, const void *caller, const char *name)
{
	if (__atomic_load_n(&kind, __ATOMIC_ACQUIRE) != (int)k || !of_library(caller))
		return false;
	if (__atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED) != target)
		return false;
	__atomic_store_n(&failed, name, __ATOMIC_RELAXED);
	return true;
}

void failing_begin(enum failing_kind k, long n)
{
	if (!n_libraries)
		dl_iterate_phdr(note_library, NULL);
	counted = 0;
	failed = NULL;
	target = n;
	__atomic_store_n(&kind, (int)k, __ATOMIC_RELEASE);
}

long failing_end(void)
{
	__atomic_store_n(&kind, -1, __ATOMIC_RELAXED);
	return __atomic_load_n(&counted, __ATOMIC_RELAXED);
}

const char *failing_name(void)
{
	return __atomic_load_n(&failed, __ATOMIC_RELAXED);
}

/* --- allocations --- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

bool failing_has_memory(void)
{
	return false;
}

long failing_blocks(void)
{
	return 0;
}

#else

enum { BLOCKS = 1 << 18 };

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
extern void __libc_free(void *p);

static void *block[BLOCKS]; /* those of the libraries, by a hash of their address */
static long blocks;
static int blocks_lock; /* guards both */

static void lock_blocks(void)
{
	while (__atomic_exchange_n(&blocks_lock, 1, __ATOMIC_ACQUIRE))
		;
}

static void unlock_blocks(void)
{
	__atomic_store_n(&blocks_lock, 0, __ATOMIC_RELEASE);
}

/* The place of @p, or one that is free (@p NULL: of @hashed). Places within 64 of the hash. */
static void **place(const void *p, const void *hashed)
{
	size_t at = (uintptr_t)hashed / 16 * 0x9e3779b97f4a7c15u % BLOCKS;

	for (size_t i = 0; i < 64; i++)
		if (block[(at + i) % BLOCKS] == p)
			return &block[(at + i) % BLOCKS];
	return NULL;
}

static void *remember(void *p, const void *caller)
{
	void **at;

	if (!p || __atomic_load_n(&kind, __ATOMIC_RELAXED) < 0 || !of_library(caller))
		return p;
	lock_blocks();
	at = place(NULL, p);
	if (at) {
		*at = p;
		blocks++;
	}
	unlock_blocks();
	return p;
}

static void forget(const void *p)
{
	void **at;

	if (!p || !n_libraries)
		return;
	lock_blocks();
	at = place(p, p);
	if (at) {
		*at = NULL;
		blocks--;
	}
	unlock_blocks();
}

bool failing_has_memory(void)
{
	return true;
}

long failing_blocks(void)
{
	long n;

	lock_blocks();
	n = blocks;
	unlock_blocks();
	return n;
}

#define CALLER __builtin_return_address(0)

static bool none(const void *caller, const char *name)
{
	bool yes = due(FAILING_MEMORY, caller, name);

	if (yes)
		errno = ENOMEM;
	return yes;
}

void *malloc(size_t n)
{
	return none(CALLER, "malloc") ? NULL : remember(__libc_malloc(n), CALLER);
}

void *calloc(size_t n, size_t size)
{
	return none(CALLER, "calloc") ? NULL : remember(__libc_calloc(n, size), CALLER);
}

void *realloc(void *p, size_t n)
{
	void *q;

	if (none(CALLER, "realloc"))
		return NULL;
	forget(p);
	q = __libc_realloc(p, n);
	return remember(q, CALLER);
}

void *aligned_alloc(size_t align, size_t n)
{
	return none(CALLER, "aligned_alloc") ? NULL : remember(__libc_memalign(align, n), CALLER);
}

void free(void *p)
{
	forget(p);
	__libc_free(p);
}

#undef CALLER
#endif

/* --- system calls --- */

#define CALLER __builtin_return_address(0)

/* The C library's function, or a sanitizer's. Any thread. */
static void *next(void **kept, const char *name)
{
	void *f = __atomic_load_n(kept, __ATOMIC_ACQUIRE);

	if (!f) {
		f = dlsym(RTLD_NEXT, name);
		__atomic_store_n(kept, f, __ATOMIC_RELEASE);
	}
	return f;
}

/* All functions of this file get to the kernel by this one. */
long syscall(long number, ...)
{
	static void *kept;
	long (*real)(long, ...) = (long (*)(long, ...))next(&kept, "syscall"), a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_pidfd_open && due(FAILING_CALLS, CALLER, "pidfd_open")) {
		errno = EMFILE;
		return -1;
	}
	if (number == SYS_sched_setattr && due(FAILING_CALLS, CALLER, "sched_setattr")) {
		errno = EPERM;
		return -1;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Of type @type, with result @bad and errno @err when it fails; else what @real gives. */
#define STAND_IN(type, name, bad, err, params, real)                                               \
	type name params                                                                           \
	{                                                                                          \
		if (due(FAILING_CALLS, CALLER, #name)) {                                           \
			errno = err;                                                               \
			return bad;                                                                \
		}                                                                                  \
		return (type)(real);                                                               \
	}

enum { SIGNALS = 8 }; /* bytes of the kernel's sets */

/* The kernel stores in @limit what is left of it. */
static int poll_for(struct pollfd *fds, nfds_t n, const struct timespec *limit,
		    const sigset_t *mask)
{
	struct timespec left = limit ? *limit : (struct timespec){ 0 };

	return (int)syscall(SYS_ppoll, fds, n, limit ? &left : NULL, mask, SIGNALS);
}

static int poll_ms(struct pollfd *fds, nfds_t n, int ms)
{
	const struct timespec limit = { ms / 1000, ms % 1000 * 1000000L };

	return poll_for(fds, n, ms < 0 ? NULL : &limit, NULL);
}

/* The kernel says how many bytes it has. */
static int cpus_of(pid_t pid, size_t size, cpu_set_t *set)
{
	long n = syscall(SYS_sched_getaffinity, pid, size, set);

	if (n < 0)
		return -1;
	memset((char *)set + n, 0, size - (size_t)n);
	return 0;
}

STAND_IN(void *, mmap, MAP_FAILED, ENOMEM,
	 (void *at, size_t len, int prot, int flags, int fd, off_t offset),
	 syscall(SYS_mmap, at, len, prot, flags, fd, offset))
STAND_IN(int, mprotect, -1, ENOMEM, (void *at, size_t len, int prot),
	 syscall(SYS_mprotect, at, len, prot))
STAND_IN(int, madvise, -1, ENOMEM, (void *at, size_t len, int advice),
	 syscall(SYS_madvise, at, len, advice))
STAND_IN(int, memfd_create, -1, EMFILE, (const char *name, unsigned int flags),
	 syscall(SYS_memfd_create, name, flags))
STAND_IN(int, ftruncate, -1, ENOSPC, (int fd, off_t len), syscall(SYS_ftruncate, fd, len))
STAND_IN(int, fallocate, -1, ENOSPC, (int fd, int mode, off_t offset, off_t len),
	 syscall(SYS_fallocate, fd, mode, offset, len))
STAND_IN(int, epoll_create1, -1, EMFILE, (int flags), syscall(SYS_epoll_create1, flags))
STAND_IN(int, socket, -1, EMFILE, (int domain, int type, int protocol),
	 syscall(SYS_socket, domain, type, protocol))
STAND_IN(int, bind, -1, ENOMEM, (int fd, const struct sockaddr *to, socklen_t len),
	 syscall(SYS_bind, fd, to, len))
STAND_IN(int, listen, -1, ENOMEM, (int fd, int backlog), syscall(SYS_listen, fd, backlog))
STAND_IN(int, connect, -1, ENOMEM, (int fd, const struct sockaddr *to, socklen_t len),
	 syscall(SYS_connect, fd, to, len))
STAND_IN(int, accept4, -1, EMFILE,
	 (int fd, struct sockaddr *restrict from, socklen_t *restrict len, int flags),
	 syscall(SYS_accept4, fd, from, len, flags))
STAND_IN(int, setsockopt, -1, ENOBUFS,
	 (int fd, int level, int option, const void *value, socklen_t len),
	 syscall(SYS_setsockopt, fd, level, option, value, len))
STAND_IN(int, getsockopt, -1, ENOBUFS,
	 (int fd, int level, int option, void *restrict value, socklen_t *restrict len),
	 syscall(SYS_getsockopt, fd, level, option, value, len))
STAND_IN(int, getsockname, -1, ENOBUFS,
	 (int fd, struct sockaddr *restrict name, socklen_t *restrict len),
	 syscall(SYS_getsockname, fd, name, len))
STAND_IN(ssize_t, sendmsg, -1, ENOBUFS, (int fd, const struct msghdr *m, int flags),
	 syscall(SYS_sendmsg, fd, m, flags))
STAND_IN(ssize_t, recvmsg, -1, ENOMEM, (int fd, struct msghdr *m, int flags),
	 syscall(SYS_recvmsg, fd, m, flags))
STAND_IN(ssize_t, send, -1, ENOBUFS, (int fd, const void *m, size_t n, int flags),
	 syscall(SYS_sendto, fd, m, n, flags, NULL, 0))
STAND_IN(ssize_t, sendto, -1, ENOBUFS,
	 (int fd, const void *m, size_t n, int flags, const struct sockaddr *to, socklen_t len),
	 syscall(SYS_sendto, fd, m, n, flags, to, len))
STAND_IN(ssize_t, recv, -1, ENOMEM, (int fd, void *m, size_t n, int flags),
	 syscall(SYS_recvfrom, fd, m, n, flags, NULL, NULL))
STAND_IN(int, epoll_wait, -1, EINTR, (int fd, struct epoll_event *e, int most, int timeout),
	 syscall(SYS_epoll_pwait, fd, e, most, timeout, NULL, 0))
STAND_IN(int, sendmmsg, -1, ENOBUFS, (int fd, struct mmsghdr *m, unsigned int n, int flags),
	 syscall(SYS_sendmmsg, fd, m, n, flags))
STAND_IN(int, recvmmsg, -1, ENOMEM,
	 (int fd, struct mmsghdr *m, unsigned int n, int flags, struct timespec *most),
	 syscall(SYS_recvmmsg, fd, m, n, flags, most))
STAND_IN(ssize_t, process_vm_readv, -1, ENOMEM,
	 (pid_t pid, const struct iovec *here, unsigned long n, const struct iovec *there,
	  unsigned long m, unsigned long flags),
	 syscall(SYS_process_vm_readv, pid, here, n, there, m, flags))

int eventfd(unsigned int first, int flags)
{
	int fd;

	if (due(FAILING_CALLS, CALLER, "eventfd")) {
		errno = EMFILE;
		return -1;
	}
	fd = (int)syscall(SYS_eventfd2, first, flags);
	if (fd >= 0 && fd < DESCRIPTORS)
		__atomic_store_n(&made[fd], true, __ATOMIC_RELAXED);
	return fd;
}

/* By this and the next a thread sanitizer knows what happens before what. */
ssize_t read(int fd, void *to, size_t n)
{
	static void *kept;

	if (due(FAILING_CALLS, CALLER, "read")) {
		errno = EINTR;
		return -1;
	}
	return ((ssize_t(*)(int, void *, size_t))next(&kept, "read"))(fd, to, n);
}

/* An eventfd takes every write of the process that made it, which nobody else fills. */
ssize_t write(int fd, const void *from, size_t n)
{
	static void *kept;
	bool fails = fd < 0 || fd >= DESCRIPTORS || !__atomic_load_n(&made[fd], __ATOMIC_RELAXED);

	if (fails && due(FAILING_CALLS, CALLER, "write")) {
		errno = ENOMEM;
		return -1;
	}
	return ((ssize_t(*)(int, const void *, size_t))next(&kept, "write"))(fd, from, n);
}

STAND_IN(ssize_t, pread, -1, ENOMEM, (int fd, void *to, size_t n, off_t at),
	 syscall(SYS_pread64, fd, to, n, at))
STAND_IN(ssize_t, pwrite, -1, ENOMEM, (int fd, const void *from, size_t n, off_t at),
	 syscall(SYS_pwrite64, fd, from, n, at))
STAND_IN(ssize_t, preadv, -1, ENOMEM, (int fd, const struct iovec *to, int n, off_t at),
	 syscall(SYS_preadv, fd, to, n, at, 0))
STAND_IN(ssize_t, pwritev, -1, ENOMEM, (int fd, const struct iovec *from, int n, off_t at),
	 syscall(SYS_pwritev, fd, from, n, at, 0))
STAND_IN(ssize_t, preadv2, -1, EINTR, (int fd, const struct iovec *to, int n, off_t at, int flags),
	 syscall(SYS_preadv2, fd, to, n, at, 0, flags))
STAND_IN(int, poll, -1, ENOMEM, (struct pollfd * fds, nfds_t n, int ms), poll_ms(fds, n, ms))
/* What a build with FORTIFY calls in place of poll() and open(). */
STAND_IN(int, __poll_chk, -1, ENOMEM, (struct pollfd * fds, nfds_t n, int ms, size_t size),
	 ((void)size, poll_ms(fds, n, ms)))
STAND_IN(int, __open64_2, -1, EMFILE, (const char *path, int flags),
	 syscall(SYS_openat, AT_FDCWD, path, flags, 0))
STAND_IN(int, ppoll, -1, ENOMEM,
	 (struct pollfd * fds, nfds_t n, const struct timespec *limit, const sigset_t *mask),
	 poll_for(fds, n, limit, mask))
STAND_IN(int, epoll_pwait2, -1, EINTR,
	 (int fd, struct epoll_event *e, int most, const struct timespec *limit,
	  const sigset_t *mask),
	 syscall(SYS_epoll_pwait2, fd, e, most, limit, mask, SIGNALS))
STAND_IN(int, fstat, -1, ENOMEM, (int fd, struct stat *st), syscall(SYS_fstat, fd, st))
STAND_IN(int, stat, -1, ENOMEM, (const char *restrict path, struct stat *restrict st),
	 syscall(SYS_newfstatat, AT_FDCWD, path, st, 0))
STAND_IN(int, fstatfs, -1, ENOMEM, (int fd, struct statfs *st), syscall(SYS_fstatfs, fd, st))
STAND_IN(int, socketpair, -1, EMFILE, (int domain, int type, int protocol, int fds[2]),
	 syscall(SYS_socketpair, domain, type, protocol, fds))
STAND_IN(int, dup, -1, EMFILE, (int fd), syscall(SYS_dup, fd))
STAND_IN(ssize_t, readlink, -1, ENOMEM, (const char *restrict path, char *restrict to, size_t n),
	 syscall(SYS_readlinkat, AT_FDCWD, path, to, n))
STAND_IN(ssize_t, getrandom, -1, EINTR, (void *to, size_t n, unsigned int flags),
	 syscall(SYS_getrandom, to, n, flags))
STAND_IN(int, access, -1, ENOMEM, (const char *path, int mode),
	 syscall(SYS_faccessat, AT_FDCWD, path, mode))
STAND_IN(int, getrlimit, -1, EPERM, (__rlimit_resource_t what, struct rlimit *limit),
	 syscall(SYS_prlimit64, 0, what, NULL, limit))
STAND_IN(int, sched_getaffinity, -1, EPERM, (pid_t pid, size_t size, cpu_set_t *set),
	 cpus_of(pid, size, set))
STAND_IN(int, sched_setaffinity, -1, EPERM, (pid_t pid, size_t size, const cpu_set_t *set),
	 syscall(SYS_sched_setaffinity, pid, size, set))

/* What is watched can always be given back. */
int epoll_ctl(int fd, int op, int what, struct epoll_event *e)
{
	if (op != EPOLL_CTL_DEL && due(FAILING_CALLS, CALLER, "epoll_ctl")) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, fd, op, what, e);
}

int open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	if (due(FAILING_CALLS, CALLER, "open")) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
	va_list ap;
	long value;

	va_start(ap, command);
	value = va_arg(ap, long);
	va_end(ap);
	if (due(FAILING_CALLS, CALLER, "fcntl")) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_fcntl, fd, command, value);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (due(FAILING_CALLS, CALLER, "ioctl")) {
		errno = ENOMEM;
		return -1;
	}
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

int openat(int folder, const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	if (due(FAILING_CALLS, CALLER, "openat")) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_openat, folder, path, flags, mode);
}

DIR *opendir(const char *path)
{
	static void *kept;

	if (due(FAILING_CALLS, CALLER, "opendir")) {
		errno = EMFILE;
		return NULL;
	}
	return ((DIR * (*)(const char *)) next(&kept, "opendir"))(path);
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
	static FILE *(*real)(const char *, const char *);

	if (due(FAILING_CALLS, CALLER, "fopen")) {
		errno = EMFILE;
		return NULL;
	}
	if (!real)
		real = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
	return real(path, mode);
}

int pthread_create(pthread_t *restrict t, const pthread_attr_t *restrict attr, void *(*run)(void *),
		   void *restrict arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (due(FAILING_CALLS, CALLER, "pthread_create"))
		return EAGAIN;
	if (!real)
		real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
				void *))dlsym(RTLD_NEXT, "pthread_create");
	return real(t, attr, run, arg);
}
