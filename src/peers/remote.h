// SPDX-License-Identifier: MIT
/* Another process' memory, reached through a descriptor of its /proc/PID/mem
 * (docs/design/peer-identity.md). The descriptor is bound to its address space: exec, exit and pid
 * reuse are harmless. Larger reads go by process_vm_readv, which is faster, when the pid is
 * visible; writes never go by pid, since they could hit the program that the process has become.
 * The last line of the bytes is stored last (docs/design/guarded-copies.md). The caller has checked
 * the addresses and has set the hazard. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <stdint.h>

struct remote;

/* @mem_fd: closed by remote_close(); after an error it stays the caller's. @pid: 0 when not visible
 * from here. Tries it by reading @cookie's 8 bytes at @cookie_addr. EPERM: that is not there. */
int remote_open(int mem_fd, pid_t pid, uint64_t cookie_addr, uint64_t cookie, struct remote **out);
void remote_close(struct remote *r);
/* In a forked child: the descriptor is the parent's right. No access works any more. */
void remote_leave(struct remote *r);
/* From now on @mark (util/death.h) shows the end of that address space, too, at the cost of a
 * load. */
void remote_watch(struct remote *r, const uint32_t *mark);
bool remote_alive(struct remote *r); /* a 1-byte pread: false when that address space is gone */
/* 0: all bytes were moved. EFAULT: the remote side is not mapped; EINVAL: the local side is not;
 * ESRCH: the process is gone; EPERM; ENOMEM. The protection of the remote page does not count, as
 * with pinned DMA. @local: a list of this process, whose bytes are moved from or to @addr. */
int remote_read(struct remote *r, const struct iovec *local, unsigned int n, uint64_t addr);
int remote_write(struct remote *r, const struct iovec *local, unsigned int n, uint64_t addr);
