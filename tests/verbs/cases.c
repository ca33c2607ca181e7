// SPDX-License-Identifier: MIT
#include "verbs/cases.h"
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "length.h"

enum { SKIPPED = 77, SECONDS = 120, REASON = 200 };

/* A case may end with objects alive, as programs do; what the library loses is leaks.c's
 * business. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}

static char *reason; /* shared with the process of a case */

bool cases_full(void)
{
	return length_full();
}

bool cases_sanitized(void)
{
	const char *s = getenv("SOFTHCA_SANITIZER");

	return s && *s && strcmp(s, "none");
}

void case_skip(const char *why)
{
	snprintf(reason, REASON, "%s", why);
	exit(SKIPPED);
}

static bool chosen(const char *name)
{
	const char *env = getenv("SOFTHCA_CASES");
	char globs[512], *at = globs, *glob;
	bool any = false;

	snprintf(globs, sizeof(globs), "%s", env ? env : "");
	while ((glob = strsep(&at, " "))) {
		if (!*glob)
			continue;
		any = true;
		if (!fnmatch(glob, name, 0))
			return true;
	}
	return !any;
}

/* Its exit status; what it left behind in its process group is killed, and gone: what ends while
 * the next case runs would have a part of its packets. */
static int ended(pid_t pid)
{
	int seconds = SECONDS * (cases_full() ? 20 : 1) * (cases_sanitized() ? 10 : 1);
	struct pollfd p = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	int status;

	if (p.fd < 0)
		die("pidfd_open");
	if (!poll(&p, 1, seconds * 1000)) {
		fprintf(stderr, "not done in %d s\n", seconds);
		kill(-pid, SIGABRT);
	}
	close(p.fd);
	if (waitpid(pid, &status, 0) < 0)
		die("waitpid");
	kill(-pid, SIGKILL);
	while (waitpid(-pid, NULL, 0) > 0 || errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool run(const struct test_case *c, int number)
{
	pid_t pid;
	int status;

	reason[0] = 0;
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		c->run(c->arg);
		exit(0);
	}
	setpgid(pid, pid);
	status = ended(pid);
	if (status && status != SKIPPED)
		printf("# exit status %d\n", status);
	printf("%sok %d - %s%s%s\n", status && status != SKIPPED ? "not " : "", number, c->name,
	       status == SKIPPED ? " # SKIP " : "", reason);
	fflush(stdout);
	return !status || status == SKIPPED;
}

int cases_run(const struct test_case *list, size_t n)
{
	int number = 0, failed = 0;

	reason = mmap(NULL, REASON, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reason == MAP_FAILED)
		die("mmap");
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* ended() waits for what cases leave behind */
	for (size_t i = 0; i < n; i++)
		if (chosen(list[i].name))
			failed += !run(&list[i], ++number);
	printf("1..%d\n", number);
	return failed ? 1 : 0;
}
