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
#include <link.h>
#endif
#include "util/barrier.h"
#include "util/hash.h"
#include "util/log.h"

#define NO_PLACE "a place that is not known"

enum { FRAMES = 24, PLACE = 256 };

struct made {
	const void *ctx, *place; /* place: where the call returns to; NULL: not known */
	const char *what;
	uint32_t number;
	bool numbered, told;
	uint64_t leak; /* counts them */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool wanted; /* frozen by read_environment() */
static pid_t owner;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct hash objects; /* leak → struct made */
static uint64_t leaks;

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

/* "ib_write_bw+0x1234", as addr2line -e takes it: the address that the linker gave, which in a
 * program without PIE is no offset; with the function where it has a symbol. */
static void name_place(const void *place, char out[PLACE])
{
	const struct link_map *map;
	void *found;
	Dl_info at;

	if (!place || !dladdr1(place, &at, &found, RTLD_DL_LINKMAP) || !at.dli_fname) {
		snprintf(out, PLACE, NO_PLACE);
		return;
	}
	map = found;
	snprintf(out, PLACE, "%s+0x%lx%s%s%s", at.dli_fname,
		 (unsigned long)((uintptr_t)place - 1 - map->l_addr), at.dli_sname ? " (" : "",
		 at.dli_sname ? at.dli_sname : "", at.dli_sname ? ")" : "");
}
#else
static const void *place_of_call(void)
{
	return NULL;
}

static void name_place(const void *place, char out[PLACE])
{
	(void)place;
	snprintf(out, PLACE, NO_PLACE);
}
#endif

uint64_t leaks_made(const void *ctx, const char *what, const uint32_t *number)
{
	struct made *m;
	uint64_t leak;

	if (!is_wanted())
		return 0;
	m = malloc(sizeof(*m));
	if (!m)
		return 0;
	*m = (struct made){ .ctx = ctx,
			    .place = place_of_call(),
			    .what = what,
			    .number = number ? *number : 0,
			    .numbered = number };
	pthread_mutex_lock(&lock);
	leak = m->leak = ++leaks;
	if (hash_put(&objects, leak, m)) {
		free(m);
		leak = 0;
	}
	pthread_mutex_unlock(&lock);
	return leak;
}

void leaks_gone(uint64_t leak)
{
	struct made *m;

	if (likely(!leak) || !is_wanted())
		return;
	pthread_mutex_lock(&lock);
	m = hash_del(&objects, leak);
	pthread_mutex_unlock(&lock);
	free(m);
}

static int by_order(const void *a, const void *b)
{
	const struct made *x = *(struct made *const *)a, *y = *(struct made *const *)b;

	return (x->leak > y->leak) - (x->leak < y->leak);
}

/* Those that are on @ctx and were not told of, the oldest first; NULL @ctx: on any. The caller
 * frees *@out. Under lock. */
static size_t left_behind(const void *ctx, struct made ***out)
{
	struct made *m;
	size_t pos = 0, n = 0;

	*out = malloc((objects.count + 1) * sizeof(struct made *));
	if (!*out)
		log_error("no memory to name the %zu objects that are alive", objects.count);
	while (*out && (m = hash_next(&objects, &pos)))
		if (!m->told && (!ctx || m->ctx == ctx))
			(*out)[n++] = m;
	if (n)
		qsort(*out, n, sizeof(struct made *), by_order);
	return n;
}

static void tell_one(struct made *m, const char *when)
{
	char place[PLACE], number[16] = "";

	name_place(m->place, place);
	if (m->numbered)
		snprintf(number, sizeof(number), " 0x%x", m->number);
	log_error("%s%s is alive %s; made at %s", m->what, number, when, place);
	m->told = true;
}

static void tell(const void *ctx, const char *when)
{
	struct made **left;
	size_t n;

	pthread_mutex_lock(&lock);
	n = left_behind(ctx, &left);
	for (size_t i = 0; i < n; i++)
		tell_one(left[i], when);
	free(left);
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
