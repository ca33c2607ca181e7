// SPDX-License-Identifier: MIT
#include "peers/remote.h"
#include <errno.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <unistd.h>
#include "util/death.h"
#include "util/uncancelled.h"

/* Below BY_PID_MIN bytes the descriptor is faster than process_vm_readv, and at any size safer. */
enum { BY_PID_MIN = 8192 + 1, LINE = 64, WORD = 8, PIECES = 64 };

/* Whether process_vm_readv reads that memory. It is first tried by a read that wants it: other than
 * the descriptor it waits for a page of userfaultfd, so it is nothing for a peer that has proven
 * nothing yet. */
enum by_pid { BY_PID_UNTRIED, BY_PID_YES, BY_PID_NO };

struct remote {
	int fd;
	pid_t pid;
	uint32_t by_pid; /* enum by_pid; NO is for good */
	uint64_t cookie_addr, cookie;
	const uint32_t *mark; /* NULL: none */
};

/* One transfer. It is cut twice, so that the kernel stores these ranges one after the other:
 * before the last line of the destination, and before its last aligned word. */
struct job {
	const struct iovec *local;
	unsigned int n; /* of @local, from here on */
	size_t used; /* bytes of @local[0] that are done */
	uint64_t addr;
	size_t left;
	bool write;
	uint8_t line, word; /* how many of the last bytes lie behind each cut */
};

static bool range_ok(uint64_t addr, size_t len)
{
	return addr <= INT64_MAX && len <= INT64_MAX - addr;
}

static int job_init(struct job *j, const struct iovec *local, unsigned int n, uint64_t addr,
		    bool write)
{
	uintptr_t end = 0;

	*j = (struct job){ .local = local, .n = n, .addr = addr, .write = write };
	for (unsigned int i = 0; i < n; i++) {
		if (__builtin_add_overflow(j->left, local[i].iov_len, &j->left))
			return EINVAL;
		if (local[i].iov_len)
			end = (uintptr_t)local[i].iov_base + local[i].iov_len;
	}
	if (!range_ok(addr, j->left))
		return EFAULT;
	if (write)
		end = addr + j->left;
	j->line = (uint8_t)(((end - 1) & (LINE - 1)) + 1);
	j->word = (uint8_t)(((end - 1) & (WORD - 1)) + 1);
	return 0;
}

static void job_advance(struct job *j, size_t bytes)
{
	j->addr += bytes;
	j->left -= bytes;
	while (j->n && bytes >= j->local->iov_len - j->used) {
		bytes -= j->local->iov_len - j->used;
		j->local++;
		j->n--;
		j->used = 0;
	}
	j->used += bytes;
}

/* Bytes up to the next cut */
static size_t job_to_cut(const struct job *j)
{
	if (j->left > j->line)
		return j->left - j->line;
	return j->left > j->word ? j->left - j->word : j->left;
}

/* As much as @out has room for; returns how many entries, *@bytes in all. */
static unsigned int job_window(struct job j, struct iovec out[PIECES], size_t *bytes)
{
	unsigned int used = 0;

	*bytes = 0;
	while (j.left && used < PIECES) {
		size_t run = j.local->iov_len - j.used, cut = job_to_cut(&j);

		run = run < cut ? run : cut;
		if (run) {
			out[used++] = (struct iovec){ (char *)j.local->iov_base + j.used, run };
			*bytes += run;
		}
		job_advance(&j, run);
	}
	return used;
}

/* The kernel takes a single range faster than a list of one. */
static ssize_t move_one(int fd, const struct job *j, const struct iovec *v)
{
	return j->write ? pwrite(fd, v->iov_base, v->iov_len, (off_t)j->addr)
			: pread(fd, v->iov_base, v->iov_len, (off_t)j->addr);
}

/* By the descriptor: the kernel says EIO for their side, EFAULT for ours, and nothing when that
 * address space is gone. */
static int move_by_fd(const struct remote *r, struct job *j)
{
	struct iovec v[PIECES];
	size_t bytes;

	/* each range costs a small transfer: here only the last word is one */
	j->line = j->word;
	while (j->left) {
		unsigned int n = job_window(*j, v, &bytes);
		ssize_t got;

		UNCANCELLED(got, n == 1	    ? move_one(r->fd, j, v)
				 : j->write ? pwritev(r->fd, v, (int)n, (off_t)j->addr)
					    : preadv(r->fd, v, (int)n, (off_t)j->addr));
		if (!got)
			return ESRCH;
		if (got > 0)
			job_advance(j, (size_t)got);
		else if (errno == EIO)
			return EFAULT;
		else if (errno == EFAULT)
			return EINVAL;
		else if (errno != EINTR)
			return errno == ENOMEM ? ENOMEM : EPERM;
	}
	return 0;
}

/* By pid, up to the first error, which move_by_fd() finds again and names. */
static void move_by_pid(struct remote *r, struct job *j)
{
	struct iovec v[PIECES], theirs;

	while (j->left) {
		unsigned int n = job_window(*j, v, &theirs.iov_len);
		ssize_t got;

		theirs.iov_base = (void *)(uintptr_t)j->addr;
		got = process_vm_readv(r->pid, v, n, &theirs, 1, 0);
		if (got < 0 && errno != EFAULT && errno != ENOMEM)
			store_relaxed(&r->by_pid, BY_PID_NO);
		if (got <= 0)
			return;
		job_advance(j, (size_t)got);
	}
}

bool remote_alive(struct remote *r)
{
	ssize_t got;
	char byte;

	UNCANCELLED(got, pread(r->fd, &byte, 1, (off_t)r->cookie_addr));
	return got != 0;
}

void remote_watch(struct remote *r, const uint32_t *mark)
{
	r->mark = mark;
}

/* After an access: was it that address space? The mark goes before an exec puts another one in its
 * place, and before a pid is free again. */
static bool was_alive(struct remote *r)
{
	read_barrier();
	return (r->mark && death_alive(r->mark)) || remote_alive(r);
}

static bool probe_pid(const struct remote *r)
{
	uint64_t found;
	struct iovec here = { &found, sizeof(found) };
	struct iovec there = { (void *)(uintptr_t)r->cookie_addr, sizeof(found) };

	return r->pid > 0 && process_vm_readv(r->pid, &here, 1, &there, 1, 0) == sizeof(found) &&
	       found == r->cookie;
}

static bool use_pid(struct remote *r, const struct job *j)
{
	if (j->left < BY_PID_MIN)
		return false;
	if (unlikely(load_relaxed(&r->by_pid) == BY_PID_UNTRIED))
		store_relaxed(&r->by_pid, probe_pid(r) ? BY_PID_YES : BY_PID_NO);
	return load_relaxed(&r->by_pid) == BY_PID_YES;
}

/* A pid is not an identity: bytes read by it count only if the address space was alive
 * afterwards. */
static int move(struct remote *r, struct job *j)
{
	if (!j->write && use_pid(r, j)) {
		move_by_pid(r, j);
		if (!was_alive(r))
			return ESRCH;
	}
	return move_by_fd(r, j);
}

static int move_all(struct remote *r, struct job *j)
{
	int err;

	foreign_order_begin();
	err = move(r, j);
	foreign_order_end();
	return err;
}

int remote_read(struct remote *r, const struct iovec *local, unsigned int n, uint64_t addr)
{
	struct job j;
	int err = job_init(&j, local, n, addr, false);

	return err ? err : move_all(r, &j);
}

/* Never by pid: no look before the call helps. process_vm_writev() waits for an exec that has
 * begun, and then writes into the new program's memory. */
int remote_write(struct remote *r, const struct iovec *local, unsigned int n, uint64_t addr)
{
	struct job j;
	int err = job_init(&j, local, n, addr, true);

	return err ? err : move_all(r, &j);
}

/* Another kind of file could make us wait for ever, or is no memory at all. */
static bool is_proc(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == PROC_SUPER_MAGIC;
}

static bool probe_fd(const struct remote *r)
{
	uint64_t found;

	return pread(r->fd, &found, sizeof(found), (off_t)r->cookie_addr) == sizeof(found) &&
	       found == r->cookie;
}

int remote_open(int mem_fd, pid_t pid, uint64_t cookie_addr, uint64_t cookie, struct remote **out)
{
	struct remote *r = calloc(1, sizeof(*r));

	if (!r)
		return ENOMEM;
	*r = (struct remote){
		.fd = mem_fd, .pid = pid, .cookie_addr = cookie_addr, .cookie = cookie
	};
	if (!range_ok(cookie_addr, sizeof(cookie)) || !is_proc(mem_fd) || !probe_fd(r)) {
		free(r);
		return EPERM;
	}
	*out = r;
	return 0;
}

void remote_leave(struct remote *r)
{
	close(r->fd);
	r->fd = -1;
}

void remote_close(struct remote *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}
