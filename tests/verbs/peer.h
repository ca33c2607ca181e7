// SPDX-License-Identifier: MIT
/* What test programs of the verbs share: a device, endpoints, two connected processes. These
 * programs use the public API only and run on any libibverbs; the runner puts ours on the library
 * path. A failed step prints the call with its errno and exits 1: a test program has nothing to
 * recover. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PEER_GID_INDEX 3 /* the first IPv4 address as RoCE v2 */
extern uint8_t peer_gid_index; /* of all that is opened: that one, but for who sets another */

enum { PEER_NO_KEY = 0x7700 }; /* no region's: their last byte is random, but never 0 */

struct peer_dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid;
};

/* What one side tells the other. */
struct peer_addr {
	uint32_t qpn, psn;
	union ibv_gid gid;
	uint64_t va;
	uint32_t rkey;
};

struct peer_ep {
	struct ibv_qp *qp;
	struct ibv_cq *scq, *rcq; /* the same when made by peer_ep_create() */
	struct peer_addr mine, theirs;
};

struct peer_opts {
	enum ibv_qp_type type;
	struct ibv_qp_cap cap;
	struct ibv_srq *srq;
	bool sig_all;
	enum ibv_mtu mtu; /* 0: 4096 */
	uint8_t timeout, retry, rnr; /* 0: 14, 7, 7 */
	bool endless; /* timeout 0 */
	uint8_t min_rnr_timer; /* 0: 12 */
	uint8_t rd_atomic; /* 0: 16 */
	uint8_t traffic_class;
	int access; /* QP access flags; 0: all remote ones */
	uint32_t qkey; /* UD; 0: 0x11111111 */
	int cqe; /* 0: enough for both queues */
	uint64_t wc_flags; /* IBV_WC_EX_*: the CQ is an extended one; 0: it is not */
	uint32_t cq_flags; /* then: IBV_CREATE_CQ_ATTR_* */
	uint64_t send_ops; /* IBV_QP_EX_WITH_*: the QP has the ibv_wr_* API; 0: it has not */
};

void die(const char *call); /* prints errno, exits 1 */
/* What the program is doing, printed when it fails. Per thread. */
void peer_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* From here on this process gets no new descriptor; the limit that there was. */
uint64_t peer_no_descriptors(void);
void peer_descriptors(uint64_t limit);

void peer_open(struct peer_dev *d); /* the first device */
void peer_close(struct peer_dev *d);

void peer_ep_create(struct peer_dev *d, const struct peer_opts *o, struct peer_ep *ep);
/* RESET → RTS towards ep->theirs; each step for itself too. */
void peer_init(struct peer_ep *ep, const struct peer_opts *o);
void peer_rtr(struct peer_ep *ep, const struct peer_opts *o);
void peer_rts(struct peer_ep *ep, const struct peer_opts *o);
void peer_connect(struct peer_ep *ep, const struct peer_opts *o);
void peer_ep_destroy(struct peer_ep *ep);
/* Two endpoints of this process, connected to each other. */
void peer_pair(struct peer_dev *d, const struct peer_opts *o, struct peer_ep *a, struct peer_ep *b);
struct ibv_ah *peer_ah(struct peer_dev *d, const struct peer_addr *to);

/* Another process: forks before anything is opened. In the child runs fn(fd, arg) and its result
 * is the exit status. Returns the pid; *fd: a socket to it. */
pid_t peer_fork(int (*fn)(int fd, void *arg), void *arg, int *fd);
int peer_wait(pid_t pid); /* its exit status; 128 + signal */
/* Sends n bytes and receives as many. Also the barrier between two processes. */
void peer_swap(int fd, const void *mine, void *theirs, size_t n);
void peer_sync(int fd);
/* Unmaps whole pages, and sees to it that nothing else of this process lands there. */
void peer_unmap(void *p, size_t n);
void peer_ep_swap(int fd, struct peer_ep *ep); /* mine ↔ theirs */

/* Waits until the thread with that id, which is atomic (0: it is still to begin), sleeps; fails
 * when it has ended. */
void peer_until_asleep(const pid_t *thread);

/* Polls one completion, at most @ms; false: none came. */
bool peer_poll(struct ibv_cq *cq, struct ibv_wc *wc, int ms);
void peer_poll_ok(struct ibv_cq *cq, struct ibv_wc *wc); /* one, successful, within 30 s */
void peer_recv(struct peer_ep *ep, uint64_t wr_id, struct ibv_sge *sg, int n);

/* Seeded bytes: a pattern that differs at every offset and for every seed. */
/* Zeroed memory: private, or of a memfd that stays open, which a peer can map. Dies if there is
 * none; given back by munmap(). */
uint8_t *peer_memory(size_t len, bool mapped);
void pattern_fill(void *p, size_t n, uint64_t seed, uint64_t offset);
/* The first byte that differs, or n. */
size_t pattern_check(const void *p, size_t n, uint64_t seed, uint64_t offset);
/* Reads what the device has written for a peer that told of it (a WRITE, an atomic): the order goes
 * through another process, where ThreadSanitizer does not see it. */
#define PEER_TOLD __attribute__((no_sanitize("thread")))
size_t pattern_check_told(const void *p, size_t n, uint64_t seed, uint64_t offset);
