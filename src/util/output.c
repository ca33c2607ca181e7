// SPDX-License-Identifier: MIT
#include "util/output.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "util/uncancelled.h"

static char begun_in[PATH_MAX]; /* a folder; empty: not known */

static void remember(void)
{
	if (!getcwd(begun_in, sizeof(begun_in)))
		begun_in[0] = '\0';
}

void output_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, remember);
}

int output_path(const char *name, char path[PATH_MAX])
{
	const char *folder;

	output_begin();
	folder = *name == '/' ? "" : begun_in;
	if (snprintf(path, PATH_MAX, "%s%s%s", folder, *folder ? "/" : "", name) >= PATH_MAX)
		return ENAMETOOLONG;
	return 0;
}

/* Takes the signal of a failed write back; one that was pending before is the program's. */
static void take_back(int signal, const sigset_t *pending_before)
{
	const struct timespec at_once = { 0 };
	sigset_t own;

	if (sigismember(pending_before, signal))
		return;
	sigemptyset(&own);
	sigaddset(&own, signal);
	sigtimedwait(&own, NULL, &at_once);
}

/* The kernel sends both signals to the thread that writes, where they are blocked meanwhile. */
static ssize_t write_unharmed(int fd, const void *bytes, size_t n)
{
	sigset_t both, mask, pending;
	ssize_t done;
	int err;

	sigemptyset(&both);
	sigaddset(&both, SIGPIPE);
	sigaddset(&both, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &both, &mask);
	sigpending(&pending);
	done = write(fd, bytes, n);
	err = errno;
	if (done < 0 && err == EPIPE)
		take_back(SIGPIPE, &pending);
	else if (done < 0 && err == EFBIG)
		take_back(SIGXFSZ, &pending);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	errno = err;
	return done;
}

ssize_t output_write(int fd, const void *bytes, size_t n)
{
	ssize_t done;

	UNCANCELLED(done, write_unharmed(fd, bytes, n));
	return done;
}
