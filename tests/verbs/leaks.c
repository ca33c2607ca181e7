// SPDX-License-Identifier: MIT
/* Nothing leaks, and what is idle costs nothing: descriptors, memory, names, clock ticks; what
 * one of 10,000 connected QPs costs. Measures, so nothing may run beside it. */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

/* --- what a process holds --- */

static unsigned int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	if (!dir)
		die("/proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* KiB of a line of /proc/self/status. */
static long status(const char *name)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[200];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			kib = atol(line + strlen(name) + 1);
	if (!f || kib < 0)
		die(name);
	fclose(f);
	return kib;
}

static unsigned int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	int c;

	if (!f)
		die("/proc/self/maps");
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

/* Names of the meeting point in this network namespace. */
static unsigned int names(void)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[400];
	unsigned int n = 0;

	if (!f)
		die("/proc/net/unix");
	while (fgets(line, sizeof(line), f))
		n += !!strstr(line, "@softhca.");
	fclose(f);
	return n;
}

/* --- one process --- */

static void open_and_close(void)
{
	static uint8_t mem[4096];
	struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 } };
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_mr *mr;

	peer_open(&dev);
	mr = ibv_reg_mr(dev.pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	want(mr);
	peer_ep_create(&dev, &o, &ep);
	peer_ep_destroy(&ep);
	want_eq(ibv_dereg_mr(mr), 0);
	peer_close(&dev);
}

static void opening_and_closing(int arg)
{
	enum { WARM = 200, SLACK_KIB = 512 };
	int n = 10000 / (cases_sanitized() ? 10 : 1);
	unsigned int fds, maps;
	long kib;

	(void)arg;
	for (int i = 0; i < WARM; i++)
		open_and_close();
	fds = descriptors();
	maps = mappings();
	kib = status("RssAnon:");
	for (int i = 0; i < n; i++)
		open_and_close();
	want_eq(descriptors(), fds);
	want(mappings() <= maps + 2); /* the allocator's own */
	want(cases_sanitized() || status("RssAnon:") <= kib + SLACK_KIB);
}

/* With a connection to another process each time. */
static void connecting_and_closing(int arg)
{
	enum { WARM = 5, SLACK_KIB = 1024 };
	unsigned int fds = 0, maps = 0;
	long kib = 0;

	(void)arg;
	for (int i = 0; i < WARM + (cases_full() ? 500 : 50); i++) {
		struct duo_opts o = { .qp.type = IBV_QPT_RC };
		struct duo duo;

		if (i == WARM) {
			fds = descriptors();
			maps = mappings();
			kib = status("RssAnon:");
		}
		duo_open(&duo, &o);
		duo_send(&duo, IBV_WR_RDMA_READ, 64);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
		duo_close(&duo);
	}
	/* the last one's end may not have been seen yet: three descriptors, its pages */
	want(descriptors() <= fds + 8);
	want(mappings() <= maps + 24);
	want(cases_sanitized() || status("RssAnon:") <= kib + SLACK_KIB);
}

/* --- many processes --- */

static int short_life(int fd, void *arg)
{
	int kind = *(int *)arg;
	struct peer_dev dev;

	(void)fd;
	open_and_close();
	peer_open(&dev);
	if (kind == 1)
		raise(SIGKILL);
	if (kind == 2)
		_exit(0);
	return 0; /* with the device open */
}

static void processes_leave_nothing(int arg)
{
	unsigned int before = names(), fds = descriptors();
	struct pollfd none = { .fd = -1 };

	(void)arg;
	for (int i = 0; i < (cases_full() ? 1000 : 100); i++) {
		int kind = i % 3, fd, result;
		pid_t pid = peer_fork(short_life, &kind, &fd);

		result = peer_wait(pid);
		want_eq(result, kind == 1 ? 128 + SIGKILL : 0);
		close(fd);
	}
	/* the kernel collects sockets that were passed through sockets a little later */
	for (int i = 0; i < 100 && names() > before; i++)
		poll(&none, 1, 50);
	want(names() <= before); /* one of an earlier case may have been among them */
	want_eq(descriptors(), fds);
}

/* --- idle --- */

/* us of processor time, of which the measuring itself takes some tens; how often a thread slept. */
static long used(long *sleeps)
{
	struct rusage r;

	want_eq(getrusage(RUSAGE_SELF, &r), 0);
	*sleeps = r.ru_nvcsw;
	return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + r.ru_utime.tv_usec +
	       r.ru_stime.tv_usec;
}

enum { LOOKS = 4 /* of the watchdog, a second */ };

/* The wait is what is measured: no other event ends it. No thread spins, and how often one wakes is
 * counted: what a wake takes depends on the machine, on a virtual one 40 to 400 us. */
static void idle_uses_no_time(int where)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = !where };
	struct pollfd none = { .fd = -1 };
	int seconds = cases_full() ? 10 : 2;
	long before, sleeps, slept;
	struct duo duo;

	duo_open(&duo, &o);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 64 });
	duo_send(&duo, IBV_WR_SEND, 64);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
	poll(&none, 1, 200); /* until the engine has found that nobody polls */
	before = used(&sleeps);
	poll(&none, 1, seconds * 1000);
	want(used(&slept) - before < seconds * 50000);
	want(slept - sleeps <= (seconds + 1) * LOOKS);
	duo_close(&duo);
}

/* --- 10,000 QPs --- */

enum { QPS = 10000, COST = 8192 };

struct many {
	struct peer_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t mem[4096];
	struct peer_ep ep[QPS];
	struct peer_addr mine[QPS], theirs[QPS];
};

static const struct peer_opts many_opts = { .type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 } };

static void make_many(struct many *m, int fd)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };

	init.send_cq = init.recv_cq = m->cq;
	for (int i = 0; i < QPS; i++) {
		init.cap = many_opts.cap;
		m->ep[i].qp = ibv_create_qp(m->dev.pd, &init);
		if (!m->ep[i].qp)
			die("ibv_create_qp");
		m->mine[i] = (struct peer_addr){ .qpn = m->ep[i].qp->qp_num,
						 .gid = m->dev.gid,
						 .va = (uintptr_t)m->mem,
						 .rkey = m->mr->rkey };
	}
	for (int i = 0; i < QPS; i += 100)
		peer_swap(fd, &m->mine[i], &m->theirs[i], 100 * sizeof(m->mine[0]));
	for (int i = 0; i < QPS; i++) {
		m->ep[i].mine = m->mine[i];
		m->ep[i].theirs = m->theirs[i];
		peer_connect(&m->ep[i], &many_opts);
	}
}

static void use_once(struct many *m, int fd, bool first)
{
	struct ibv_sge sg = { (uintptr_t)m->mem, 64, m->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	for (int i = 0; i < QPS; i++)
		peer_recv(&m->ep[i], 1, &sg, 1);
	peer_sync(fd);
	for (int i = 0; i < QPS; i++) {
		if (first)
			want_eq(ibv_post_send(m->ep[i].qp, &wr, &bad), 0);
		peer_poll_ok(m->cq, &wc);
	}
	peer_sync(fd);
	for (int i = 0; i < QPS; i++) {
		if (!first)
			want_eq(ibv_post_send(m->ep[i].qp, &wr, &bad), 0);
		peer_poll_ok(m->cq, &wc);
	}
	peer_sync(fd);
}

static long resident(void)
{
	return status("RssAnon:") + status("RssShmem:") + status("VmPTE:");
}

static struct many *begin_many(void)
{
	struct many *m = calloc(1, sizeof(*m));

	if (!m)
		die("calloc");
	memset(m, 1, sizeof(*m)); /* resident before it is measured */
	peer_open(&m->dev);
	m->cq = ibv_create_cq(m->dev.ctx, 2 * QPS, NULL, NULL, 0);
	m->mr = ibv_reg_mr(m->dev.pd, m->mem, sizeof(m->mem), IBV_ACCESS_LOCAL_WRITE);
	want(m->cq && m->mr);
	return m;
}

static void end_many(struct many *m)
{
	for (int i = 0; i < QPS; i++)
		want_eq(ibv_destroy_qp(m->ep[i].qp), 0);
	want_eq(ibv_destroy_cq(m->cq), 0);
	want_eq(ibv_dereg_mr(m->mr), 0);
	peer_close(&m->dev);
	free(m);
}

static int other_many(int fd, void *arg)
{
	struct many *m = begin_many();

	(void)arg;
	make_many(m, fd);
	use_once(m, fd, false);
	peer_sync(fd);
	end_many(m);
	return 0;
}

static void ten_thousand_qps(int arg)
{
	struct many *m;
	long before, cost;
	pid_t pid;
	int fd;

	(void)arg;
	pid = peer_fork(other_many, NULL, &fd);
	m = begin_many();
	before = resident();
	make_many(m, fd);
	use_once(m, fd, true);
	cost = (resident() - before) * 1024 / QPS;
	printf("# %ld B each\n", cost);
	want(cases_sanitized() || cost <= COST);
	peer_sync(fd);
	end_many(m);
	want_eq(peer_wait(pid), 0);
}

static const struct test_case cases[] = {
	CASE(opening_and_closing),
	CASE(connecting_and_closing),
	CASE(processes_leave_nothing),
	{ "idle_uses_no_time, connected in one process", idle_uses_no_time, 0 },
	{ "idle_uses_no_time, connected to another", idle_uses_no_time, 1 },
	CASE(ten_thousand_qps),
};

int main(void)
{
	return CASES_RUN(cases);
}
