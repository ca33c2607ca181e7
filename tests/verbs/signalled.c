// SPDX-License-Identifier: MIT
/* A signal handler that posts interrupts ibv_post_send() and ibv_poll_cq() of its own thread, which
 * no verb allows (docs/troubleshooting.md): on an adapter it may wait for ever for a lock of that
 * very thread. So it may here, and then a line says so. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { EVERY_US = 300, PATIENCE_MS = 60000 };

static struct peer_dev dev;
static struct peer_ep ep, other;
static struct ibv_mr *mr;
static char memory[4096];

static void post(void)
{
	struct ibv_sge sg = { (uintptr_t)memory, 64, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)memory + 2048;
	wr.wr.rdma.rkey = mr->rkey;
	(void)!ibv_post_send(ep.qp, &wr, &bad); /* the queue may be full */
}

static void handler(int sig)
{
	(void)sig;
	post();
}

/* Until it waits for itself. */
static void works(void)
{
	const struct peer_opts o = { .type = IBV_QPT_RC, .cap = { 512, 16, 1, 1, 0 } };
	const struct itimerval every = { { 0, EVERY_US }, { 0, EVERY_US } };
	struct sigaction a = { .sa_handler = handler };
	struct ibv_wc wc[16];

	peer_open(&dev);
	mr = ibv_reg_mr(dev.pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	want(mr);
	peer_pair(&dev, &o, &ep, &other);
	want_eq(sigaction(SIGVTALRM, &a, NULL), 0);
	want_eq(setitimer(ITIMER_VIRTUAL, &every, NULL), 0);
	for (;;) {
		post();
		want(ibv_poll_cq(ep.scq, 16, wc) >= 0);
	}
}

/* Does standard error bring the line? */
static bool says(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char text[4096] = "";
	size_t n = 0;
	ssize_t got;

	while (poll(&p, 1, PATIENCE_MS) == 1) {
		got = read(fd, text + n, sizeof(text) - 1 - n);
		if (got <= 0)
			return false;
		n += (size_t)got;
		text[n] = '\0';
		if (strstr(text, "a signal handler has called a verb"))
			return true;
	}
	return false;
}

static void a_handler_that_waits_for_its_own_thread_says_so(int arg)
{
	int err[2];
	pid_t pid;
	bool said;

	(void)arg;
#ifdef __SANITIZE_THREAD__
	case_skip("ThreadSanitizer calls handlers itself, between two calls of the library");
#endif
	want_eq(pipe(err), 0);
	pid = fork();
	if (!pid) {
		dup2(err[1], STDERR_FILENO);
		works();
		_exit(0);
	}
	close(err[1]);
	said = says(err[0]);
	kill(pid, SIGKILL);
	want_eq(waitpid(pid, NULL, 0), pid);
	want(said);
	close(err[0]);
}

static const struct test_case cases[] = {
	CASE(a_handler_that_waits_for_its_own_thread_says_so),
};

int main(void)
{
	return CASES_RUN(cases);
}
