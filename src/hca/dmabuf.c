// SPDX-License-Identifier: MIT
/* Regions of a dma-buf: the buffer is mapped here as long as the region lives. Any dma-buf will do
 * whose exporter lets it be mapped (udmabuf does); a memfd is taken as well, since that is what
 * udmabuf makes its buffers of, and most kernels have no /dev/udmabuf. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hca/limits.h"
#include "hca/mr.h"
#include "obs/explain.h"
#include "util/fork.h"

#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static const char call[] = "ibv_reg_dmabuf_mr";

struct mapping {
	uint8_t *p;
	size_t len;
};

static int file_check(int fd)
{
	char path[32], name[64] = "";
	ssize_t n;

	if (fd == -1)
		return EBADF; /* UCX asks so whether there are dma-bufs: no mistake to explain */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name) - 1);
	if (n < 0)
		return refuse(EBADF, "%s: fd %d is not open; pass a dma-buf's", call, fd);
	if (strncmp(name, "/dmabuf:", 8) && strncmp(name, "/memfd:", 7))
		return refuse(
			EINVAL,
			"%s: fd %d is %s, neither a dma-buf nor a memfd; /dev/udmabuf makes one "
			"of the other",
			call, fd, name);
	return 0;
}

/* The program's position in a memfd stays as it is; a dma-buf has none. */
static off_t size_of(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) ? st.st_size : lseek(fd, 0, SEEK_END);
}

static int range_check(const struct mr_attr *a, uint64_t offset, int fd)
{
	uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	off_t size = size_of(fd);

	if (!a->len || a->len > LIMIT_MR_SIZE)
		return refuse(EINVAL, "%s: length %" PRIu64 " B is not in 1..%llu; give one in it",
			      call, a->len, LIMIT_MR_SIZE);
	if ((offset ^ a->iova) & mask)
		return refuse(EINVAL,
			      "%s: offset 0x%" PRIx64 " and iova 0x%" PRIx64
			      " lie at different places "
			      "of their pages; make the low bits equal",
			      call, offset, a->iova);
	if (a->iova + a->len - 1 < a->iova)
		return refuse(EINVAL,
			      "%s: iova 0x%" PRIx64 "+%" PRIu64 " wraps; choose a lower one", call,
			      a->iova, a->len);
	if (size < 0 || a->len > (uint64_t)size || offset > (uint64_t)size - a->len)
		return refuse(EINVAL,
			      "%s: %" PRIu64 " B at offset %" PRIu64
			      " reach out of the buffer of %lld "
			      "B; stay within",
			      call, a->len, offset, (long long)size);
	return 0;
}

static void unmap(struct mr *mr)
{
	struct mapping *m = mr->behind;

	if (fork_is_ours(mr->epoch)) /* a child has no such mapping */
		munmap(m->p, m->len);
	free(m);
}

static int map(const struct mr_attr *a, uint64_t offset, int fd, struct mapping **out)
{
	uint64_t in_page = offset & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	int prot = PROT_READ | (a->access & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
	struct mapping *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return refuse(ENOMEM, "%s: no memory; raise the limit (ulimit -v)", call);
	m->len = (size_t)(in_page + a->len);
	m->p = mmap(NULL, m->len, prot, MAP_SHARED, fd, (off_t)(offset - in_page));
	if (m->p == MAP_FAILED) {
		err = errno;
		free(m);
		return refuse(err, "%s: fd %d cannot be mapped for %s (%s); open it for that", call,
			      fd, prot & PROT_WRITE ? "reading and writing" : "reading",
			      strerror(err));
	}
	madvise(m->p, m->len, MADV_DONTFORK);
	*out = m;
	return 0;
}

int mr_create_dmabuf(struct pd *pd, const struct mr_attr *a, uint64_t offset, int fd,
		     struct mr **out)
{
	struct mapping *m = NULL;
	int err = pd_use(pd, call);

	if (!err)
		err = mr_access_check(a->access, ACCESS, call);
	if (!err)
		err = file_check(fd);
	if (!err)
		err = range_check(a, offset, fd);
	if (!err)
		err = map(a, offset, fd, &m);
	if (err)
		return err;
	struct mr like = { .kind = MR_DMABUF,
			   .epoch = fork_epoch(),
			   .ib = { .addr = (void *)(uintptr_t)offset, .length = a->len },
			   .iova = a->iova,
			   .base = (uintptr_t)m->p + m->len - a->len,
			   .access = mr_rights(a->access),
			   .behind = m,
			   .release = unmap };
	struct key_entry e = { .pdn = pd->pdn,
			       .access = like.access,
			       .flags = KEY_DIRECT,
			       .iova = like.iova,
			       .len = a->len,
			       .addr = like.base };

	err = mr_publish(pd, &like, &e, call, out);
	if (err)
		unmap(&like);
	return err;
}
