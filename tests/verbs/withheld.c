// SPDX-License-Identifier: MIT
/* Memory of a peer whose pages are withheld: they are userfaultfd's, and nobody answers for them
 * until the case says so. A short access fails at once and becomes the peer's; a long one waits in
 * the thread that copies, and so do calls that wait for its end, which is said. Other queue pairs
 * go on. (docs/design/security.md, "Memory and files that do not answer") */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum {
	WORD = 8,
	LEN = 1 << 16, /* of each side's memory: in one part, and read by process_vm_readv */
	SHORT_READ = 4096,
	PATIENCE_S = 60, /* the peer ends then, and with it what waits for its memory */
};

static struct duo duo, other; /* the peer whose memory is withheld; another one */
static char log_path[512];

/* --- the peer --- */

static int new_userfaultfd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), dev;

	if (fd >= 0)
		return fd;
	dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		return -1;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);
	close(dev);
	return fd;
}

static int withholding = -1; /* the peer's userfaultfd */

/* The pages of its region; found: the kernel lets it. */
static struct duo_answer withholds(struct side *s, const struct duo_order *o)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register r = { .range = { (uintptr_t)s->mem, LEN },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };

	(void)o;
	withholding = new_userfaultfd();
	if (withholding < 0 || ioctl(withholding, UFFDIO_API, &api))
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

/* Its completion is o->id's to wait for: 0: nobody does. */
static struct duo_answer sends(struct side *s, const struct duo_order *o)
{
	struct ibv_sge sg = { (uintptr_t)s->mem, o->len, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	want_eq(ibv_post_send(s->ep.qp, &wr, &bad), 0);
	if (o->id)
		peer_poll_ok(s->ep.scq, &wc);
	return (struct duo_answer){ .found = true };
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

static void begin(void)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC, .timeout = 18 }, .bytes = LEN };

	duo_open(&other, &o);
	duo_open(&duo, &o);
	for (int i = 0; i < 2; i++) { /* from now on it may go at the memory by itself */
		duo_send(&duo, IBV_WR_RDMA_READ, WORD);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	}
	if (!duo_do(&duo, withholds, 0, 0, 0).found)
		case_skip("no userfaultfd for the kernel's accesses here");
	log_to_file();
}

/* By the engine's thread too: this one waits in duo_do() while the other side's SEND is taken. */
static void others_go_on(bool engine)
{
	struct ibv_sge sg = { (uintptr_t)other.near.mem, LEN, other.near.mr->lkey };

	for (int i = 0; i < 3; i++) {
		duo_send(&other, IBV_WR_RDMA_WRITE, WORD);
		want_eq(duo_wc(&other).status, IBV_WC_SUCCESS);
		duo_send(&other, IBV_WR_RDMA_READ, LEN);
		want_eq(duo_wc(&other).status, IBV_WC_SUCCESS);
		peer_recv(&other.near.ep, 1, &sg, 1);
		duo_do(&other, sends, 0, LEN, engine);
		want_eq(duo_wc(&other).status, IBV_WC_SUCCESS);
	}
}

/* Is a thread of this process inside process_vm_readv()? */
static bool in_a_copy(void)
{
	char path[300], text[32];
	bool found = false;
	struct dirent *e;
	DIR *d = opendir("/proc/self/task");

	while (d && (e = readdir(d))) {
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%s/syscall", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		memset(text, 0, sizeof(text));
		if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
			found |= strtol(text, NULL, 10) == SYS_process_vm_readv;
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

	unrelated = ibv_reg_mr(other.near.dev.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
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
	duo_close(&duo);
	duo_close(&other);
}

/* A thread copies from the withheld memory. */
static void meanwhile(pthread_t copies, bool engine)
{
	pthread_t waits;

	while (!in_a_copy())
		sched_yield();
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
	duo_send(&duo, IBV_WR_RDMA_READ, LEN);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	return NULL;
}

static void a_long_read_waits(int arg)
{
	pthread_t t;

	(void)arg;
	begin();
	pattern_fill(duo.near.mem, LEN, 1, 0);
	want_eq(pthread_create(&t, NULL, reads, NULL), 0);
	meanwhile(t, true);
}

static void *receives(void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	peer_poll_ok(duo.near.ep.rcq, &wc);
	return NULL;
}

/* A payload that the peer refers to: fetched by a thread that polls, or by the engine's. */
static void a_long_message_waits(int arg)
{
	struct ibv_sge sg;
	pthread_t t;

	(void)arg;
	begin();
	pattern_fill(duo.near.mem, LEN, 1, 0);
	sg = (struct ibv_sge){ (uintptr_t)duo.near.mem, LEN, duo.near.mr->lkey };
	peer_recv(&duo.near.ep, 1, &sg, 1);
	want_eq(pthread_create(&t, NULL, receives, NULL), 0);
	duo_do(&duo, sends, 0, LEN, 0);
	meanwhile(t, false);
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

	begin();
	pattern_fill(duo.near.mem, LEN, 1, 0);
	duo_send(&duo, op, len);
	for (int i = 0; i < 3; i++) {
		others_go_on(true);
		region();
		deregisters(NULL);
		duo_reconnect(&other);
	}
	want(!in_a_copy());
	it_is_shown();
	want(!peer_poll(duo.near.ep.scq, &wc, 0));
	duo_do(&duo, gives_back, 0, 0, 0);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	if (op == IBV_WR_RDMA_WRITE)
		want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = len, .id = 1 }).found);
	duo_close(&duo);
	duo_close(&other);
}

static const struct test_case cases[] = {
	CASE(a_long_read_waits),
	CASE(a_long_message_waits),
	CASE_ARG(a_short_one_is_the_peers, IBV_WR_RDMA_READ),
	CASE_ARG(a_short_one_is_the_peers, IBV_WR_RDMA_WRITE),
};

int main(void)
{
	setenv("SOFTHCA_LOG", "info", 1);
	return CASES_RUN(cases);
}
