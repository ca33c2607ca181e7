// SPDX-License-Identifier: MIT
#include "obs/leaks.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif
#include "util/barrier.h"
#include "util/hash.h"
#include "util/log.h"

enum { FRAMES = 24, PLACE = 256 };

struct made {
	const void *ctx, *place; /* place: where the call returns to; NULL: not known */
	const char *what;
	uint32_t number;
	uint64_t order; /* of the making */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool wanted; /* frozen by read_environment() */
static pid_t owner;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct hash objects; /* address of an object → struct made */
static uint64_t orders;

static void read_environment(void)
{
	const char *value = secure_getenv("SOFTHCA_EXPLAIN");

	wanted = value && !strcmp(value, "leaks");
	owner = getpid();
}

static bool is_wanted(void)
{
	pthread_once(&once, read_environment);
	return wanted && owner == getpid();
}

#ifdef __GLIBC__
static bool is_ours(const Dl_info *at, const void *base)
{
	const char *name = at->dli_fname ? strrchr(at->dli_fname, '/') : NULL;

	name = name ? name + 1 : "";
	return at->dli_fbase == base || !strncmp(name, "libmlx5.so", 10) ||
	       !strncmp(name, "librdmacm.so", 12);
}

/* The innermost caller outside our libraries; a sanitizer's backtrace() stands further in. */
static const void *place_of_call(void)
{
	void *frame[FRAMES];
	int n = backtrace(frame, FRAMES);
	bool inside = false;
	Dl_info self, at;

	if (!dladdr((void *)(uintptr_t)leaks_made, &self))
		return NULL;
	for (int i = 0; i < n; i++) {
		if (!dladdr(frame[i], &at))
			continue;
		if (is_ours(&at, self.dli_fbase))
			inside = true;
		else if (inside)
			return frame[i];
	}
	return NULL;
}
#else
static const void *place_of_call(void)
{
	return NULL;
}
#endif

void leaks_made(const void *obj, const void *ctx, const char *what, uint32_t number)
{
	struct made *m;

	if (!is_wanted())
		return;
	m = malloc(sizeof(*m));
	if (!m)
		return;
	*m = (struct made){ ctx, place_of_call(), what, number, 0 };
	pthread_mutex_lock(&lock);
	m->order = orders++;
	if (hash_put(&objects, (uintptr_t)obj, m))
		free(m);
	pthread_mutex_unlock(&lock);
}

void leaks_gone(const void *obj)
{
	struct made *m;

	if (!is_wanted())
		return;
	pthread_mutex_lock(&lock);
	m = hash_del(&objects, (uintptr_t)obj);
	pthread_mutex_unlock(&lock);
	free(m);
}

/* "ib_write_bw+0x1234", as addr2line -e takes it; with the function where it has a symbol. */
static void name_place(const void *place, char out[PLACE])
{
	Dl_info at;

	if (!place || !dladdr(place, &at) || !at.dli_fname)
		snprintf(out, PLACE, "a place that is not known");
	else
		snprintf(out, PLACE, "%s+0x%lx%s%s%s", at.dli_fname,
			 (unsigned long)((uintptr_t)place - 1 - (uintptr_t)at.dli_fbase),
			 at.dli_sname ? " (" : "", at.dli_sname ? at.dli_sname : "",
			 at.dli_sname ? ")" : "");
}

/* The oldest on @ctx that was made at @from or later; NULL @ctx: on any. */
static struct made *oldest(const void *ctx, uint64_t from)
{
	struct made *m, *found = NULL;
	size_t pos = 0;

	while ((m = hash_next(&objects, &pos)))
		if ((!ctx || m->ctx == ctx) && m->order >= from &&
		    (!found || m->order < found->order))
			found = m;
	return found;
}

/* Those of a closed context are told of once: at exit they have no context any more. */
static void tell(const void *ctx, const char *when)
{
	char place[PLACE];
	struct made *m;

	pthread_mutex_lock(&lock);
	for (uint64_t from = 0; (m = oldest(ctx, from)); from = m->order + 1) {
		if (!m->ctx)
			continue;
		name_place(m->place, place);
		log_error("%s 0x%x is alive %s; made at %s", m->what, m->number, when, place);
		m->ctx = NULL;
	}
	pthread_mutex_unlock(&lock);
}

void leaks_closed(const void *ctx, const char *device)
{
	char when[96];

	if (!is_wanted())
		return;
	snprintf(when, sizeof(when), "when %s is closed (ibv_close_device)", device);
	tell(ctx, when);
}

__attribute__((destructor)) static void leave(void)
{
	if (wanted && owner == getpid())
		tell(NULL, "at exit");
}
