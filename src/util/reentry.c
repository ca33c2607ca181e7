// SPDX-License-Identifier: MIT
#include "util/reentry.h"
#include <dlfcn.h>
#include <string.h>
#include <time.h>
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
#define KNOWN
#include <execinfo.h>
#endif
#include "util/log.h"

enum { FRAMES = 128 };

#ifdef KNOWN
/* What a signal handler returns to: the code that asks the kernel for sigreturn. The unwinders of
 * compilers know it by the same bytes. */
static bool is_return_of_handler(const void *code)
{
#if defined(__x86_64__)
	static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
#else
	static const uint8_t sigreturn[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4 };
#endif
	return !memcmp(code, sigreturn, sizeof(sigreturn));
}

static const void *file_of(const void *code)
{
	Dl_info info;

	return dladdr(code, &info) ? info.dli_fbase : NULL;
}

bool reentry_inside(void)
{
	void *frame[FRAMES];
	int n = backtrace(frame, FRAMES), i = 0;
	const void *ours = file_of(__builtin_return_address(0));

	while (i < n && !is_return_of_handler(frame[i]))
		i++;
	while (i < n && file_of(frame[i]) != ours)
		i++;
	return i < n;
}
#else
bool reentry_inside(void)
{
	return false;
}
#endif

/* Not clock_now(), which takes a lock itself. */
static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void reentry_look(struct reentry *r)
{
	uint64_t now;

	if (r->since == UINT64_MAX)
		return;
	now = now_ns();
	if (!r->since)
		r->since = now;
	if (now - r->since < REENTRY_NS)
		return;
	r->since = UINT64_MAX;
	if (reentry_inside())
		log_error_once("a signal handler has called a verb, and waits for the verb of its "
			       "own thread that it has interrupted, for ever; verbs may not be "
			       "called in signal handlers: set a flag there, or write to a pipe");
}
