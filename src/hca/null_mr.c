// SPDX-License-Identifier: MIT
/* The null region: two mappings of 2 GiB, the longest message, made with the first null MR and
 * kept. One reads zeros; the other takes what is written, the same few pages again and again. So it
 * needs no case of its own where bytes are moved. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hca/limits.h"
#include "hca/mr.h"
#include "obs/explain.h"
#include "util/mutex.h"
#include "util/sealed.h"

enum { SINK = 16 << 20 }; /* bytes of memory behind the sink, at most */
#define SPAN ((size_t)LIMIT_MSG)

static struct mutex lock = MUTEX_INITIALIZER; /* guards both */
static uint8_t *zeros, *sink;

static uint8_t *reserve(int prot)
{
	uint8_t *p = mmap(NULL, SPAN, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, SPAN, MADV_DONTDUMP);
	return p;
}

static uint8_t *make_sink(void)
{
	int fd = memfd_create("softhca-null", MFD_CLOEXEC);
	uint8_t *p = fd < 0 || sealed_size(fd, SINK) ? NULL : reserve(PROT_NONE);

	for (size_t at = 0; p && at < SPAN; at += SINK)
		if (mmap(p + at, SINK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED) {
			munmap(p, SPAN);
			p = NULL;
		}
	if (fd >= 0)
		close(fd);
	return p;
}

static int mappings(uint8_t **z, uint8_t **s)
{
	mutex_lock(&lock);
	if (!zeros)
		zeros = reserve(PROT_READ);
	if (!sink)
		sink = make_sink();
	*z = zeros;
	*s = sink;
	mutex_unlock(&lock);
	return *z && *s ? 0 : ENOMEM;
}

void mr_null_fork_begin(void)
{
	mutex_lock(&lock);
}

void mr_null_fork_end(void)
{
	mutex_unlock(&lock);
}

int mr_create_null(struct pd *pd, struct mr **out)
{
	static const char call[] = "ibv_alloc_null_mr";
	struct mr like = { .kind = MR_NULL,
			   .access = IBV_ACCESS_LOCAL_WRITE,
			   .ib.length = SIZE_MAX };
	uint8_t *z, *s;
	int err = pd_use(pd, call);

	if (!err && mappings(&z, &s))
		err = refuse(ENOMEM,
			     "%s: no address space for 2 mappings of %zu B; raise RLIMIT_AS", call,
			     SPAN);
	if (err)
		return err;
	struct key_entry e = { .pdn = pd->pdn,
			       .access = like.access,
			       .flags = KEY_NULL,
			       .iova = (uintptr_t)s,
			       .len = SPAN,
			       .addr = (uintptr_t)z };

	err = mr_publish(pd, &like, &e, call, out);
	if (!err)
		(*out)->ib.rkey = 0; /* the lkey alone is valid */
	return err;
}
