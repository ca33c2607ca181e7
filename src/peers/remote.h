// SPDX-License-Identifier: MIT
/* Another process' memory, reached through the /proc/self/mem descriptor that it gave us (bound
 * to its address space: exec, exit and pid reuse are harmless), with process_vm_readv as the
 * accelerator for larger reads when its pid is visible (M2). Writes never go by pid: they could
 * hit the program that the process has become. Stores keep the order of the last line (M3). The
 * caller has checked the addresses and holds the hazard. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <stdint.h>

struct remote;

/* @mem_fd: owned from now on (closed by remote_close()). @pid: 0 when not visible from here.
 * Probes what works by reading @cookie's 8 bytes at @cookie_addr. EPERM: nothing works. */
int remote_open(int mem_fd, pid_t pid, uint64_t cookie_addr, uint64_t cookie, struct remote **out);
void remote_close(struct remote *r);
/* By @mark (util/death.h) the end of that address space is seen too, at the cost of a load. */
void remote_watch(struct remote *r, const uint32_t *mark);
bool remote_alive(struct remote *r); /* a 1-byte pread: false when that address space is gone */
/* All bytes or an error: 0; EFAULT the remote side is not mapped; EINVAL the local side is not;
 * ESRCH the process is gone; EPERM; ENOMEM. Protection of the remote page may be passed over, as by
 * pinned DMA. @local: scatter list of this process. Total bytes of @local
 * are moved from or to @addr. */
int remote_read(struct remote *r, const struct iovec *local, unsigned int n, uint64_t addr);
int remote_write(struct remote *r, const struct iovec *local, unsigned int n, uint64_t addr);
