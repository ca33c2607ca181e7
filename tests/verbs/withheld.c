// SPDX-License-Identifier: MIT
/* Memory of a peer whose pages are withheld: they are userfaultfd's, and nobody answers for them
 * until the case says so. A short access fails at once and becomes the peer's; a long one waits in
 * the thread that copies, and so do calls that wait for its end, which is said. Other queue pairs
 * go on, other peers are met, and may leave. (docs/design/security.md, "Memory and files that do
 * not answer") */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "userfault.h"
#include "verbs/cases.h"
#include "verbs/duo.h"

enum {
	WORD = 8,
	LEN = 1 << 16, /* of each side's memory: in one part, and read by process_vm_readv */
	SHORT_READ = 4096,
	PATIENCE_S = 60, /* the peer ends then, and with it what waits for its memory */
};

enum meets { STRANGE, MEETS }; /* the other process, before the memory is withheld */

static struct duo duo; /* to the peer whose memory is withheld */
static unsigned int fetches; /* atomic: the library's calls of process_vm_readv() */
static char log_path[512];

/* In place of the C library's. */
__attribute__((visibility("default"))) ssize_t
process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n, const struct iovec *from,
		 unsigned long m, unsigned long flags)
{
	__atomic_fetch_add(&fetches, 1, __ATOMIC_RELAXED);
	return syscall(SYS_process_vm_readv, pid, to, n, from, m, flags);
}

/* --- the peer --- */

static int withholding = -1; /* the peer's userfaultfd */

/* The pages of its region; found: the kernel lets it. */
static struct duo_answer withholds(struct side *s, const struct duo_order *o)
{
	struct uffdio_register r = { .range = { (uintptr_t)s->mem, LEN },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };

	(void)o;
	withholding = userfault_open();
	if (withholding < 0)
		return (struct duo_answer){ .found = false };
	alarm(PATIENCE_S);
	if (madvise(s->mem, LEN, MADV_DONTNEED) || ioctl(withholding, UFFDIO_REGISTER, &r))
		die("UFFDIO_REGISTER");
	return (struct duo_answer){ .found = true };
}

/* All of them are zero from here on. */
static struct duo_answer gives_back(struct side *s, const struct duo_order *o)
{
	(void)s;
	(void)o;
	close(withholding);
	return (struct duo_answer){ .found = true };
}

/* With an id, it waits for the completion. */
static struct duo_answer sends(struct side *s, const struct duo_order *o)
{
	struct ibv_sge sg = { (uintptr_t)s->mem, o->len, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_wc wc;

	wr.send_flags = o->id ? IBV_SEND_SIGNALED : 0;
	want_eq(ibv_post_send(s->ep.qp, &wr, &bad), 0);
	if (o->id)
		peer_poll_ok(s->ep.scq, &wc);
	return (struct duo_answer){ .found = true };
}

/* --- connections to two other processes, in which nothing is withheld --- */

static struct peer_opts opts = { .type = IBV_QPT_RC, .cap = { 16, 16, 4, 4, 64 }, .timeout = 18 };

static struct other {
	struct peer_ep ep;
	struct ibv_mr *mr;
	uint8_t *mem;
	int fd; /* to the process at the other end */
	pid_t pid;
} one, leaver, *other = &one;

static void other_open(struct peer_dev *d)
{
	opts.timeout = other == &one ? 18 : 14; /* what the leaver does not answer ends soon */
	other->mem = peer_memory(LEN, false);
	other->mr = ibv_reg_mr(d->pd, other->mem, LEN,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				       IBV_ACCESS_REMOTE_READ);
	want(other->mr);
	peer_ep_create(d, &opts, &other->ep);
	other->ep.mine.va = (uintptr_t)other->mem;
	other->ep.mine.rkey = other->mr->rkey;
	peer_ep_swap(other->fd, &other->ep);
	peer_connect(&other->ep, &opts);
	peer_sync(other->fd);
}

static void other_post(enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_sge sg = { (uintptr_t)other->mem, len, other->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { other->ep.theirs.va, other->ep.theirs.rkey } },
			   *bad;

	want_eq(ibv_post_send(other->ep.qp, &wr, &bad), 0);
}

static void other_polls(void)
{
	struct ibv_wc wc;

	peer_poll_ok(other->ep.scq, &wc);
}

static void other_reconnects(void)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	want_eq(ibv_modify_qp(other->ep.qp, &reset, IBV_QP_STATE), 0);
	peer_connect(&other->ep, &opts);
	peer_sync(other->fd);
}

enum order { SEND = 's', SEND_AND_POLL = 'p', RECONNECT = 'r', QUIT = 'q' };

static int other_process(int fd, void *arg)
{
	struct peer_dev d;
	char order;

	other = arg;
	other->fd = fd;
	peer_open(&d);
	other_open(&d);
	while (read(fd, &order, 1) == 1 && order != QUIT) {
		if (order == RECONNECT) {
			other_reconnects();
			continue;
		}
		other_post(IBV_WR_SEND, LEN);
		if (order == SEND_AND_POLL)
			other_polls();
		want_eq(write(fd, &order, 1), 1);
	}
	return 0;
}

static void tell_other(enum order order)
{
	char byte = (char)order;

	want_eq(write(other->fd, &byte, 1), 1);
	if (order == RECONNECT)
		other_reconnects();
	else
		want_eq(read(other->fd, &byte, 1), 1);
}

/* By the engine too: this thread waits in tell_other() while the other side's SEND is taken. */
static void others_go_on(bool engine)
{
	struct ibv_sge sg = { (uintptr_t)other->mem, LEN, other->mr->lkey };

	for (int i = 0; i < 3; i++) {
		other_post(IBV_WR_RDMA_WRITE, WORD);
		other_polls();
		other_post(IBV_WR_RDMA_READ, LEN);
		other_polls();
		peer_recv(&other->ep, 1, &sg, 1);
		tell_other(engine ? SEND_AND_POLL : SEND);
		other_polls();
	}
}

static void others_open(bool meets)
{
	struct other *const all[] = { &leaver, &one };

	for (int i = 0; i < 2; i++) {
		other = all[i];
		other_open(&duo.near.dev);
		if (other != &one || meets)
			others_go_on(true);
	}
}

static void other_close(void)
{
	const char quit = QUIT;

	want_eq(write(other->fd, &quit, 1), 1);
	want_eq(peer_wait(other->pid), 0);
}

/* --- this process --- */

static int standard_error; /* where it led */

/* What a case that has failed says, too. */
static void show_log(void)
{
	char text[4096];
	int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text));

	if (n > 0 && write(standard_error, text, (size_t)n) < n)
		_exit(1);
	unlink(log_path);
}

/* This process' standard error goes to a file. */
static void log_to_file(void)
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	snprintf(log_path, sizeof(log_path), "%s/withheld-%d", tmp ? tmp : "/tmp", getpid());
	fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	standard_error = dup(STDERR_FILENO);
	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || atexit(show_log))
		die("a file for the log");
	close(fd);
}

/* Until the peer refers to what it sends. */
static void take_messages(void)
{
	struct ibv_sge sg = { (uintptr_t)duo.near.mem, LEN, duo.near.mr->lkey };
	unsigned int before = __atomic_load_n(&fetches, __ATOMIC_RELAXED);
	struct ibv_wc wc;

	while (__atomic_load_n(&fetches, __ATOMIC_RELAXED) == before) {
		peer_recv(&duo.near.ep, 1, &sg, 1);
		duo_do(&duo, sends, 0, LEN, 1);
		peer_poll_ok(duo.near.ep.rcq, &wc);
	}
}

/* @meets: something is sent to the other process before. */
static void begin(bool meets)
{
	struct duo_opts o = { .qp = opts, .bytes = LEN };

	one.pid = peer_fork(other_process, &one, &one.fd);
	leaver.pid = peer_fork(other_process, &leaver, &leaver.fd);
	duo_open(&duo, &o);
	others_open(meets);
	take_messages();
	for (int i = 0; i < 2; i++) { /* from now on it may go at the memory by itself */
		duo_send(&duo, IBV_WR_RDMA_READ, WORD);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	}
	if (!duo_do(&duo, withholds, 0, 0, 0).found)
		case_skip("no userfaultfd for the kernel's accesses here");
	log_to_file();
}

static pid_t copier; /* atomic: the thread that posts, or polls, for what is withheld */

/* The thread of this process that is inside process_vm_readv(); 0: none. */
static pid_t in_a_copy(void)
{
	char path[300], text[32];
	pid_t found = 0;
	struct dirent *e;
	DIR *d = opendir("/proc/self/task");

	while (d && (e = readdir(d))) {
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%s/syscall", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		memset(text, 0, sizeof(text));
		if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
			if (strtol(text, NULL, 10) == SYS_process_vm_readv)
				found = (pid_t)strtol(e->d_name, NULL, 10);
		if (fd >= 0)
			close(fd);
	}
	closedir(d);
	return found;
}

static struct ibv_mr *unrelated;
static bool gone; /* atomic */

static void *deregisters(void *arg)
{
	(void)arg;
	want_eq(ibv_dereg_mr(unrelated), 0);
	__atomic_store_n(&gone, true, __ATOMIC_RELEASE);
	return NULL;
}

/* By the library, in its log. */
static bool is_said(const char *what)
{
	static char text[4096];
	int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = 0;
	return strstr(text, what);
}

static void region(void)
{
	static uint8_t memory[4096];

	unrelated = ibv_reg_mr(duo.near.dev.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	want(unrelated);
}

static void until_it_ends(pthread_t copies, pthread_t waits)
{
	static const uint8_t zero[LEN];

	duo_do(&duo, gives_back, 0, 0, 0);
	want_eq(pthread_join(copies, NULL), 0);
	want_eq(pthread_join(waits, NULL), 0);
	want(!memcmp(duo.near.mem, zero, LEN));
	others_go_on(true);
	other_close();
}

/* What waits for it hears of its end. */
static void one_leaves(void)
{
	struct ibv_wc wc;

	other = &leaver;
	other_post(IBV_WR_SEND, WORD); /* it has posted no receive */
	other_close();
	want(peer_poll(other->ep.scq, &wc, 30000));
	want_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
	other = &one;
}

/* A thread copies from the withheld memory. If that is the engine's, who polls goes on alone. */
static void meanwhile(pthread_t copies)
{
	pthread_t waits;
	bool engine;
	pid_t who;

	while (!(who = in_a_copy()))
		sched_yield();
	engine = who == __atomic_load_n(&copier, __ATOMIC_ACQUIRE);
	others_go_on(engine);
	one_leaves();
	others_go_on(engine);
	region();
	want_eq(pthread_create(&waits, NULL, deregisters, NULL), 0);
	while (!is_said("a call waits until a thread of this process ends its access to a peer's "
			"memory"))
		want(!__atomic_load_n(&gone, __ATOMIC_ACQUIRE));
	others_go_on(engine);
	want(!__atomic_load_n(&gone, __ATOMIC_ACQUIRE));
	until_it_ends(copies, waits);
}

static void *reads(void *arg)
{
	(void)arg;
	__atomic_store_n(&copier, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	duo_send(&duo, IBV_WR_RDMA_READ, LEN);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	return NULL;
}

static void a_long_read_waits(int meets)
{
	pthread_t t;

	begin(meets);
	pattern_fill(duo.near.mem, LEN, 1, 0);
	want_eq(pthread_create(&t, NULL, reads, NULL), 0);
	meanwhile(t);
}

static void *receives(void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	__atomic_store_n(&copier, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	peer_poll_ok(duo.near.ep.rcq, &wc);
	return NULL;
}

/* A payload that the peer refers to: fetched by a thread that polls, or by the engine's. */
static void a_long_message_waits(int meets)
{
	struct ibv_sge sg;
	pthread_t t;

	begin(meets);
	pattern_fill(duo.near.mem, LEN, 1, 0);
	sg = (struct ibv_sge){ (uintptr_t)duo.near.mem, LEN, duo.near.mr->lkey };
	peer_recv(&duo.near.ep, 1, &sg, 1);
	want_eq(pthread_create(&t, NULL, receives, NULL), 0);
	duo_do(&duo, sends, 0, LEN, 0);
	meanwhile(t);
}

/* `softhca ps` names what our queue pair waits for, and the process that does not answer. */
static void it_is_shown(void)
{
	char line[512], command[512], qp[64], answer[64], peer[16];
	bool waits = false, silent = false;
	FILE *f;

	snprintf(command, sizeof(command), "%s/bin/softhca ps", getenv("SOFTHCA_PREFIX"));
	snprintf(qp, sizeof(qp), "  0x%x ", duo.near.ep.qp->qp_num);
	snprintf(answer, sizeof(answer), " an answer of QP 0x%x\n", duo.near.ep.theirs.qpn);
	snprintf(peer, sizeof(peer), "%d ", (int)duo.pid);
	f = popen(command, "re");
	while (f && fgets(line, sizeof(line), f)) {
		waits |= !strncmp(line, qp, strlen(qp)) && strstr(line, answer);
		silent |= !strncmp(line, peer, strlen(peer)) && strstr(line, "does not answer");
	}
	want(f && !pclose(f));
	want(waits && silent);
}

/* The peer's own thread waits for its memory, and none of ours. */
static void a_short_one_is_the_peers(int opcode)
{
	enum ibv_wr_opcode op = (enum ibv_wr_opcode)opcode;
	uint32_t len = op == IBV_WR_RDMA_READ ? SHORT_READ : WORD;
	struct ibv_wc wc;

	begin(true);
	pattern_fill(duo.near.mem, LEN, 1, 0);
	duo_send(&duo, op, len);
	for (int i = 0; i < 3; i++) {
		others_go_on(true);
		region();
		deregisters(NULL);
		tell_other(RECONNECT);
	}
	want(!in_a_copy());
	it_is_shown();
	want(!peer_poll(duo.near.ep.scq, &wc, 0));
	duo_do(&duo, gives_back, 0, 0, 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	if (op == IBV_WR_RDMA_WRITE)
		want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = len, .id = 1 }).found);
	other_close();
	one_leaves();
}

static const struct test_case cases[] = {
	CASE_ARG(a_long_read_waits, MEETS),
	CASE_ARG(a_long_read_waits, STRANGE),
	CASE_ARG(a_long_message_waits, MEETS),
	CASE_ARG(a_long_message_waits, STRANGE),
	CASE_ARG(a_short_one_is_the_peers, IBV_WR_RDMA_READ),
	CASE_ARG(a_short_one_is_the_peers, IBV_WR_RDMA_WRITE),
};

int main(void)
{
	setenv("SOFTHCA_LOG", "info", 1);
	return CASES_RUN(cases);
}
