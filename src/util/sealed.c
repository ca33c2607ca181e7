// SPDX-License-Identifier: MIT
#include "util/sealed.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum { SIZE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

static int map(int fd, size_t len, int prot, void **out)
{
	void *p = mmap(NULL, len, prot, MAP_SHARED, fd, 0);
	int err;

	if (p == MAP_FAILED)
		return errno;
	if (madvise(p, len, MADV_DONTFORK)) {
		err = errno;
		munmap(p, len);
		return err;
	}
	*out = p;
	return 0;
}

static int make_fd(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

int sealed_size(int fd, size_t len)
{
	struct rlimit lim;

	if (!getrlimit(RLIMIT_FSIZE, &lim) && lim.rlim_cur != RLIM_INFINITY && len > lim.rlim_cur)
		return EFBIG;
	return ftruncate(fd, (off_t)len) ? errno : 0;
}

int sealed_make(const char *name, size_t len, enum sealed_use use, int *fd, void **out)
{
	int readonly = use == SEALED_READONLY ? F_SEAL_FUTURE_WRITE : 0;
	int seals = SIZE_SEALS | readonly | F_SEAL_SEAL;
	void *p = NULL;
	int err, f = make_fd(name);

	if (f < 0)
		return errno;
	err = sealed_size(f, len);
	if (!err && use == SEALED_ALLOCATED && fallocate(f, 0, 0, (off_t)len))
		err = errno;
	if (!err)
		err = map(f, len, PROT_READ | PROT_WRITE, &p);
	if (!err && fcntl(f, F_ADD_SEALS, seals))
		err = errno;
	if (err) {
		sealed_unmap(p, len);
		close(f);
		return err;
	}
	*fd = f;
	*out = p;
	return 0;
}

/* The type of the file system says it. The size of a block does not: that of any memfd is the size
 * of a huge page where shmem_enabled is "always". */
static bool has_huge_pages(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) || fs.f_type == HUGETLBFS_MAGIC;
}

int sealed_map(int fd, size_t len, bool writable, void **out)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SIZE_SEALS) != SIZE_SEALS || fstat(fd, &st) ||
	    st.st_size != (off_t)len || has_huge_pages(fd))
		return EPROTO;
	return map(fd, len, PROT_READ | (writable ? PROT_WRITE : 0), out);
}

int sealed_find(pid_t pid, const char *name, bool writable, int *fd)
{
	/* A process may call any file so, a FIFO or a terminal too. */
	int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	char dir[64], what[128], want[128], path[512];
	struct dirent *e;
	ssize_t n;
	DIR *d;

	snprintf(want, sizeof(want), "/memfd:%s (deleted)", name);
	snprintf(dir, sizeof(dir), "/proc/%d/fd", (int)pid);
	d = opendir(dir);
	if (!d)
		return errno == ENOENT ? ESRCH : errno;
	*fd = -1;
	while (*fd < 0 && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		n = readlink(path, what, sizeof(what) - 1);
		what[n < 0 ? 0 : n] = '\0';
		if (!strcmp(what, want))
			*fd = open(path, flags);
	}
	closedir(d);
	return *fd < 0 ? ENOENT : 0;
}

void sealed_give_back(void *p, size_t len)
{
	if (p && !munlock(p, len)) /* of mlockall(): locked pages are not removed */
		madvise(p, len, MADV_REMOVE);
	sealed_unmap(p, len);
}

void sealed_unmap(void *p, size_t len)
{
	if (p)
		munmap(p, len);
}
