// SPDX-License-Identifier: MIT
#include "copied.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "sysfs.h"

/* A folder that nobody else may write, below @where; others' folders and links are passed over. */
static int own_folder(const char *where, char *path, size_t size)
{
	struct stat st;

	if (!where || where[0] != '/')
		return ENOENT;
	if (snprintf(path, size, "%s/softhca-view-%u", where, geteuid()) >= (int)size)
		return ENAMETOOLONG;
	if (mkdir(path, 0711) && errno != EEXIST)
		return errno;
	if (lstat(path, &st))
		return errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) ? 0 : EACCES;
}

static int fill_dev(const struct sysfs_host *host, int root)
{
	char name[64];

	if (mkdirat(root, "dev", 0755) || mkdirat(root, "dev/infiniband", 0755))
		return errno;
	for (unsigned int i = 0; i < sysfs_host_devices(host); i++) {
		snprintf(name, sizeof(name), "dev/infiniband/uverbs%u", i);
		if (symlinkat(SYSFS_UVERBS_NODE, root, name))
			return errno;
	}
	return 0;
}

static int fill(const struct sysfs_host *host, int root, uint64_t *sum)
{
	int class, err;

	if (mkdirat(root, "class", 0755))
		return errno;
	class = openat(root, "class", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (class < 0)
		return errno;
	err = sysfs_write(host, class, sum);
	if (!err && symlinkat("/sys/class/net", class, "net"))
		err = errno;
	close(class);
	return err ? err : fill_dev(host, root);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void remove_tree(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static unsigned int counted;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path, (void)st, (void)type, (void)ftw;
	counted++;
	return 0;
}

static unsigned int count_tree(const char *path)
{
	counted = 0;
	nftw(path, count_one, 8, FTW_PHYS);
	return counted;
}

/* An earlier run has put the same files at @path, where a cleaner of old files may have removed
 * some: then @fresh takes their place, and @fresh is what was left. */
static int move_there(const char *fresh, const char *path)
{
	if (!rename(fresh, path))
		return 0;
	if (errno != EEXIST && errno != ENOTEMPTY)
		return errno;
	if (count_tree(path) == count_tree(fresh))
		return 0;
	return syscall(SYS_renameat2, AT_FDCWD, fresh, AT_FDCWD, path, RENAME_EXCHANGE) ? errno : 0;
}

/* Writes the files beside the place where they belong, and moves them there whole. */
static int write_tree(const struct sysfs_host *host, const char *folder, char *path, size_t size)
{
	char fresh[PATH_MAX];
	uint64_t sum;
	int root, err;

	if (snprintf(fresh, sizeof(fresh), "%s/new-XXXXXX", folder) >= (int)sizeof(fresh))
		return ENAMETOOLONG;
	if (!mkdtemp(fresh))
		return errno;
	root = open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = root < 0 || fchmod(root, 0755) ? errno : fill(host, root, &sum);
	if (root >= 0)
		close(root);
	if (!err &&
	    snprintf(path, size, "%s/%016llx", folder, (unsigned long long)sum) >= (int)size)
		err = ENAMETOOLONG;
	if (!err)
		err = move_there(fresh, path);
	if (err || !access(fresh, F_OK))
		remove_tree(fresh);
	return err;
}

/* In the first place where all can be written; else why not in the last one. */
static int write_somewhere(const struct sysfs_host *host, char *path, size_t size)
{
	const char *const places[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/dev/shm",
				       "/tmp" };
	char folder[PATH_MAX];
	int err = ENOENT;

	for (size_t i = 0; err && i < sizeof(places) / sizeof(*places); i++) {
		err = own_folder(places[i], folder, sizeof(folder));
		if (!err)
			err = write_tree(host, folder, path, size);
	}
	return err;
}

/* Last, since a sanitizer's runtime wants to be first. */
static int preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *both;
	int err;

	if (old && strstr(old, library))
		return 0;
	if (asprintf(&both, "%s%s%s", old ? old : "", old && *old ? ":" : "", library) < 0)
		return ENOMEM;
	err = setenv("LD_PRELOAD", both, 1) ? ENOMEM : 0;
	free(both);
	return err;
}

int copied_show(const struct sysfs_host *host, const char *libraries)
{
	char path[PATH_MAX], library[PATH_MAX];
	mode_t was;
	int err;

	if (snprintf(library, sizeof(library), "%s/" COPIED_LIBRARY, libraries) >=
	    (int)sizeof(library))
		return ENAMETOOLONG;
	if (access(library, R_OK))
		return errno;
	if (strpbrk(library, " :"))
		return ENOTSUP;
	was = umask(022); /* everybody's to look at: the program may change its user */
	err = write_somewhere(host, path, sizeof(path));
	umask(was);
	if (!err && setenv("SOFTHCA_VIEW_ROOT", path, 1))
		err = ENOMEM;
	return err ? err : preload(library);
}
