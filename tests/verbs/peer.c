// SPDX-License-Identifier: MIT
#include "verbs/peer.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QKEY 0x11111111

uint8_t peer_gid_index = PEER_GID_INDEX;
static __thread char note[256];

void peer_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(note, sizeof(note), fmt, ap);
	va_end(ap);
}

static void show_note(void)
{
	if (note[0])
		fprintf(stderr, "in: %s\n", note);
}

void die(const char *call)
{
	fprintf(stderr, "%s: %s\n", call, strerror(errno));
	show_note();
	exit(1);
}

void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	show_note();
	exit(1);
}

static void ok(int err, const char *call)
{
	if (!err)
		return;
	if (err > 0)
		errno = err;
	die(call);
}

void peer_open(struct peer_dev *d)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0])
		die("ibv_get_device_list");
	d->ctx = ibv_open_device(list[0]);
	if (!d->ctx)
		die("ibv_open_device");
	ibv_free_device_list(list);
	d->pd = ibv_alloc_pd(d->ctx);
	if (!d->pd)
		die("ibv_alloc_pd");
	ok(ibv_query_gid(d->ctx, 1, peer_gid_index, &d->gid), "ibv_query_gid");
}

void peer_close(struct peer_dev *d)
{
	ok(ibv_dealloc_pd(d->pd), "ibv_dealloc_pd");
	ok(ibv_close_device(d->ctx), "ibv_close_device");
}

/* ibv_qp_init_attr is the front of its extended form. */
static struct ibv_qp *extended_qp(struct peer_dev *d, const struct ibv_qp_init_attr *front,
				  uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = d->pd,
		.send_ops_flags = ops,
	};

	memcpy(&attr, front, sizeof(*front));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	return ibv_create_qp_ex(d->ctx, &attr);
}

static struct ibv_cq *extended_cq(struct peer_dev *d, const struct peer_opts *o, uint32_t cqe)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = cqe,
					    .wc_flags = o->wc_flags,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = o->cq_flags };

	return (struct ibv_cq *)ibv_create_cq_ex(d->ctx, &attr);
}

void peer_ep_create(struct peer_dev *d, const struct peer_opts *o, struct peer_ep *ep)
{
	int cqe = o->cqe ? o->cqe : (int)(o->cap.max_send_wr + o->cap.max_recv_wr) * 2 + 64;
	struct ibv_qp_init_attr attr = {
		.qp_type = o->type,
		.cap = o->cap,
		.srq = o->srq,
		.sq_sig_all = o->sig_all,
	};

	ep->scq = ep->rcq = o->wc_flags ? extended_cq(d, o, (uint32_t)cqe)
					: ibv_create_cq(d->ctx, cqe, NULL, NULL, 0);
	if (!ep->scq)
		die("ibv_create_cq");
	attr.send_cq = attr.recv_cq = ep->scq;
	ep->qp = o->send_ops ? extended_qp(d, &attr, o->send_ops) : ibv_create_qp(d->pd, &attr);
	if (!ep->qp)
		die("ibv_create_qp");
	ep->mine = (struct peer_addr){ .qpn = ep->qp->qp_num,
				       .psn = (ep->qp->qp_num * 2654435761u) & 0xffffff,
				       .gid = d->gid };
}

void peer_ep_destroy(struct peer_ep *ep)
{
	ok(ibv_destroy_qp(ep->qp), "ibv_destroy_qp");
	ok(ibv_destroy_cq(ep->scq), "ibv_destroy_cq");
}

void peer_init(struct peer_ep *ep, const struct peer_opts *o)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = o->access ? o->access
					     : IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC,
		.qkey = o->qkey ? o->qkey : QKEY,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (o->type == IBV_QPT_UC)
		a.qp_access_flags &= IBV_ACCESS_REMOTE_WRITE;
	mask |= o->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	ok(ibv_modify_qp(ep->qp, &a, mask), "ibv_modify_qp to INIT");
}

void peer_rtr(struct peer_ep *ep, const struct peer_opts *o)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = o->mtu ? o->mtu : IBV_MTU_4096,
		.dest_qp_num = ep->theirs.qpn,
		.rq_psn = ep->theirs.psn,
		.max_dest_rd_atomic = o->rd_atomic ? o->rd_atomic : 16,
		.min_rnr_timer = o->min_rnr_timer ? o->min_rnr_timer : 12,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};
	int mask = IBV_QP_STATE;

	a.ah_attr.grh.dgid = ep->theirs.gid;
	a.ah_attr.grh.sgid_index = peer_gid_index;
	a.ah_attr.grh.hop_limit = 64;
	a.ah_attr.grh.traffic_class = o->traffic_class;
	if (o->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (o->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	ok(ibv_modify_qp(ep->qp, &a, mask), "ibv_modify_qp to RTR");
}

void peer_rts(struct peer_ep *ep, const struct peer_opts *o)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = ep->mine.psn,
		.timeout = o->timeout || o->endless ? o->timeout : 14,
		.retry_cnt = o->retry ? o->retry : 7,
		.rnr_retry = o->rnr ? o->rnr : 7,
		.max_rd_atomic = o->rd_atomic ? o->rd_atomic : 16,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (o->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	ok(ibv_modify_qp(ep->qp, &a, mask), "ibv_modify_qp to RTS");
}

void peer_connect(struct peer_ep *ep, const struct peer_opts *o)
{
	peer_init(ep, o);
	peer_rtr(ep, o);
	peer_rts(ep, o);
}

void peer_pair(struct peer_dev *d, const struct peer_opts *o, struct peer_ep *a, struct peer_ep *b)
{
	peer_ep_create(d, o, a);
	peer_ep_create(d, o, b);
	a->theirs = b->mine;
	b->theirs = a->mine;
	peer_connect(a, o);
	peer_connect(b, o);
}

struct ibv_ah *peer_ah(struct peer_dev *d, const struct peer_addr *to)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };
	struct ibv_ah *ah;

	a.grh.dgid = to->gid;
	a.grh.sgid_index = peer_gid_index;
	a.grh.hop_limit = 64;
	ah = ibv_create_ah(d->pd, &a);
	if (!ah)
		die("ibv_create_ah");
	return ah;
}

pid_t peer_fork(int (*fn)(int fd, void *arg), void *arg, int *fd)
{
	int sv[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		die("socketpair");
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		close(sv[0]);
		exit(fn(sv[1], arg));
	}
	close(sv[1]);
	*fd = sv[0];
	return pid;
}

int peer_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void peer_swap(int fd, const void *mine, void *theirs, size_t n)
{
	size_t got = 0;

	if (write(fd, mine, n) != (ssize_t)n)
		die("write to the other process");
	while (got < n) {
		ssize_t r = read(fd, (char *)theirs + got, n - got);

		if (r <= 0)
			fail("the other process has ended");
		got += r;
	}
}

void peer_sync(int fd)
{
	char c = 's';

	peer_swap(fd, &c, &c, 1);
}

void peer_unmap(void *p, size_t n)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* The sanitizer maps memory all the time: a file that has no bytes keeps the place, and
	 * faults. It takes the place at once, since other threads map something, too. */
	int fd = memfd_create("nothing", MFD_CLOEXEC);

	if (mmap(p, n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != p)
		die("mmap over what is to be unmapped");
	close(fd);
#else
	if (munmap(p, n))
		die("munmap");
#endif
}

void peer_until_asleep(const pid_t *thread)
{
	char path[64], stat[64];
	pid_t tid;
	int fd;

	while (!(tid = __atomic_load_n(thread, __ATOMIC_ACQUIRE)))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	do {
		memset(stat, 0, sizeof(stat));
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || read(fd, stat, sizeof(stat) - 1) <= 0)
			die("the thread's stat");
		close(fd);
	} while (!strstr(stat, ") S "));
}

void peer_ep_swap(int fd, struct peer_ep *ep)
{
	peer_swap(fd, &ep->mine, &ep->theirs, sizeof(ep->mine));
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ULL + t.tv_nsec / 1000000;
}

bool peer_poll(struct ibv_cq *cq, struct ibv_wc *wc, int ms)
{
	uint64_t end = now_ms() + ms;

	do {
		for (int i = 0; i < 1000; i++) {
			int n = ibv_poll_cq(cq, 1, wc);

			if (n < 0)
				fail("ibv_poll_cq: %s", strerror(-n));
			if (n)
				return true;
		}
	} while (now_ms() < end);
	return false;
}

void peer_poll_ok(struct ibv_cq *cq, struct ibv_wc *wc)
{
	if (!peer_poll(cq, wc, 30000))
		fail("no completion within 30 s");
	if (wc->status)
		fail("completion of wr_id %llu: %s, vendor_err 0x%x", (unsigned long long)wc->wr_id,
		     ibv_wc_status_str(wc->status), wc->vendor_err);
}

void peer_recv(struct peer_ep *ep, uint64_t wr_id, struct ibv_sge *sg, int n)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sg, .num_sge = n }, *bad;

	ok(ibv_post_recv(ep->qp, &wr, &bad), "ibv_post_recv");
}

static inline uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static uint8_t pattern_byte(uint64_t seed, uint64_t offset)
{
	return mix(seed * 0x9e3779b97f4a7c15 + (offset >> 3)) >> (offset & 7) * 8;
}

uint8_t *peer_memory(size_t len, bool mapped)
{
	int flags = mapped ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd = -1;
	void *p;

	if (mapped) {
		fd = memfd_create("peer_memory", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)len))
			die("memfd_create");
	}
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

void pattern_fill(void *p, size_t n, uint64_t seed, uint64_t offset)
{
	uint8_t *b = p;

	for (size_t i = 0; i < n;) {
		if (!((offset + i) & 7) && n - i >= 8) {
			uint64_t w = mix(seed * 0x9e3779b97f4a7c15 + ((offset + i) >> 3));

			memcpy(b + i, &w, 8);
			i += 8;
		} else {
			b[i] = pattern_byte(seed, offset + i);
			i++;
		}
	}
}

static inline __attribute__((always_inline)) size_t check(const void *p, size_t n, uint64_t seed,
							  uint64_t offset)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n;) {
		uint64_t w;

		if (!((offset + i) & 7) && n - i >= 8) {
			memcpy(&w, b + i, 8);
			if (w == mix(seed * 0x9e3779b97f4a7c15 + ((offset + i) >> 3))) {
				i += 8;
				continue;
			}
		}
		if (b[i] != pattern_byte(seed, offset + i))
			return i;
		i++;
	}
	return n;
}

size_t pattern_check(const void *p, size_t n, uint64_t seed, uint64_t offset)
{
	return check(p, n, seed, offset);
}

PEER_TOLD size_t pattern_check_told(const void *p, size_t n, uint64_t seed, uint64_t offset)
{
	return check(p, n, seed, offset);
}

/* --- descriptors --- */

void peer_descriptors(uint64_t limit)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		die("getrlimit");
	r.rlim_cur = limit;
	if (setrlimit(RLIMIT_NOFILE, &r))
		die("setrlimit");
}

uint64_t peer_no_descriptors(void)
{
	int next = dup(0);
	struct rlimit r;

	if (next < 0 || close(next) || getrlimit(RLIMIT_NOFILE, &r))
		die("dup, close, getrlimit");
	peer_descriptors((uint64_t)next);
	return r.rlim_cur;
}
