// SPDX-License-Identifier: MIT
#include "view.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include "sysfs.h"

#define SOURCE "softhca" /* the tmpfs' name in mountinfo, which marks the view */

static bool has_mark(FILE *f)
{
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (f && !found && getline(&line, &size, f) > 0)
		found = strstr(line, " /sys/class ") && strstr(line, " - tmpfs " SOURCE " ");
	free(line);
	if (f)
		fclose(f);
	return found;
}

bool view_is_shown(const char *path)
{
	return has_mark(fopen(path, "re"));
}

bool view_is_shown_at(int proc_pid)
{
	int fd = openat(proc_pid, "mountinfo", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && has_mark(fdopen(fd, "r"));
}

static int put_link(int old, int new, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(old, name, target, sizeof(target) - 1);

	if (n < 0)
		return errno;
	target[n] = '\0';
	return symlinkat(target, new, name) ? errno : 0;
}

static int bind_at(int old, const char *from, int new, const char *to)
{
	char source[PATH_MAX], target[PATH_MAX];

	snprintf(source, sizeof(source), "/proc/self/fd/%d/%s", old, from);
	snprintf(target, sizeof(target), "/proc/self/fd/%d/%s", new, to);
	return mount(source, target, NULL, MS_BIND | MS_REC, NULL) ? errno : 0;
}

/* The kernel looks for the terminals of /dev/ptmx in the folder "pts" beside it, in the same mount:
 * a file bound for itself has none. So all of the old /dev is bound too, and a link leads there. */
static int put_ptmx(int old, int new)
{
	int err;

	if (mkdirat(new, SYSFS_HOME, 0755))
		return errno;
	err = bind_at(old, ".", new, SYSFS_HOME);
	if (err)
		return err;
	return symlinkat(SYSFS_HOME "/ptmx", new, "ptmx") ? errno : 0;
}

/* Makes @name of the covered folder @old appear in the tmpfs @new again. */
static int put_back(int old, int new, const char *name)
{
	struct stat st;
	int fd, err;

	if (fstatat(old, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : errno; /* gone meanwhile */
	if (S_ISLNK(st.st_mode))
		return put_link(old, new, name);
	if (S_ISCHR(st.st_mode) && !strcmp(name, "ptmx"))
		return put_ptmx(old, new);
	if (S_ISDIR(st.st_mode)) {
		if (mkdirat(new, name, 0755))
			return errno;
	} else {
		fd = openat(new, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			return errno;
		close(fd);
	}
	err = bind_at(old, name, new, name);
	if (err != ENOENT)
		return err;
	return unlinkat(new, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) ? errno : 0;
}

/* Puts back all but the folder itself, its parent and what @is_ours replaces. */
static int put_back_all(int old, int new, bool (*is_ours)(const char *name))
{
	int again = openat(old, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	struct dirent *e;
	int err = 0;

	if (!dir)
		return errno;
	while (!err && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    !is_ours(e->d_name))
			err = put_back(old, new, e->d_name);
	closedir(dir);
	return err;
}

static int open_folder(const char *path)
{
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* A folder that a tmpfs is to cover. */
struct folder {
	const char *path;
	bool (*is_ours)(const char *name); /* an entry of the HCA replaces it */
	int (*fill)(const struct sysfs_host *host, int old, int dir);
	bool frozen; /* read-only afterwards */
};

/* The tmpfs is made ready in /sys/class, so that binding all of /dev does not bind itself. */
static int cover(const struct folder *f, const struct sysfs_host *host)
{
	static const char stage[] = "/sys/class";
	int old = open_folder(f->path), new, err;

	if (old < 0)
		return errno;
	if (mount(SOURCE, stage, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755")) {
		err = errno;
		close(old);
		return err;
	}
	new = open_folder(stage);
	err = new < 0 ? errno : put_back_all(old, new, f->is_ours);
	if (!err)
		err = f->fill(host, old, new);
	if (!err && f->frozen &&
	    mount(NULL, stage, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC,
		  NULL))
		err = errno;
	if (!err && strcmp(f->path, stage) != 0 && mount(stage, f->path, NULL, MS_MOVE, NULL))
		err = errno;
	if (new >= 0)
		close(new);
	close(old);
	if (err)
		umount2(stage, MNT_DETACH);
	return err;
}

static bool is_ours_in_sys(const char *name)
{
	return !strcmp(name, SYSFS_HOME) || !strncmp(name, "infiniband", strlen("infiniband"));
}

static bool is_ours_in_dev(const char *name)
{
	return !strcmp(name, "infiniband");
}

/* Clients never open it; they look whether it is a character device that they may read and
 * write. */
static int fill_dev(const struct sysfs_host *host, int old, int dir)
{
	char to[64];
	int fd;

	(void)old;
	if (mkdirat(dir, "infiniband", 0755))
		return errno;
	for (unsigned int i = 0; i < sysfs_host_devices(host); i++) {
		snprintf(to, sizeof(to), "infiniband/uverbs%u", i);
		fd = openat(dir, to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			return errno;
		close(fd);
		snprintf(to, sizeof(to), "/proc/self/fd/%d/infiniband/uverbs%u", dir, i);
		if (mount(SYSFS_UVERBS_NODE, to, NULL, MS_BIND, NULL))
			return errno;
	}
	return 0;
}

#define UP "../"

/* The folder of a device in the view that @old is of, if it is one and has the device on the same
 * interface. Without "..", which would lead from the covered mount to the one that covers it. */
static bool find_in_outer(int old, const char *device, const char *netdev, char out[PATH_MAX])
{
	char link[128], interface[PATH_MAX + 64], *within;
	ssize_t n;

	snprintf(link, sizeof(link), "infiniband/%s", device);
	n = readlinkat(old, link, out, PATH_MAX - 1);
	out[n < 0 ? 0 : n] = '\0';
	within = strstr(out, "/infiniband/");
	if (strncmp(out, UP SYSFS_HOME "/", strlen(UP SYSFS_HOME "/")) != 0 || !within)
		return false;
	*within = '\0';
	snprintf(interface, sizeof(interface), "%s/net/%s", out + strlen(UP), netdev);
	*within = '/';
	memmove(out, out + strlen(UP), strlen(out + strlen(UP)) + 1);
	return !faccessat(old, interface, F_OK, AT_SYMLINK_NOFOLLOW);
}

/* Programs add to these files (engine/port_counts), so they have mounts of their own, which stay
 * writable. In a run within a run they are those of the outer one: what is done within shows
 * outside, too. */
static int bind_counters(const char *device, const char *netdev, int old, int dir)
{
	static const char *const folders[] = { "counters", "hw_counters" };
	char outer[PATH_MAX], from[PATH_MAX], to[128];
	bool shared = find_in_outer(old, device, netdev, outer);
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(folders) / sizeof(*folders); i++) {
		snprintf(to, sizeof(to), "infiniband/%s/ports/1/%s", device, folders[i]);
		if (shared && snprintf(from, sizeof(from), "%s/ports/1/%s", outer, folders[i]) <
				      (int)sizeof(from))
			err = bind_at(old, from, dir, to);
		else
			err = bind_at(dir, to, dir, to);
	}
	return err;
}

static int fill_sys(const struct sysfs_host *host, int old, int dir)
{
	int err = sysfs_write(host, dir, NULL);

	for (unsigned int i = 0; !err && i < sysfs_host_devices(host); i++) {
		const char *netdev, *device = sysfs_host_name(host, i, &netdev);

		err = bind_counters(device, netdev, old, dir);
	}
	return err;
}

/* Later mounts of the machine still appear here; those made here stay here. In a chroot whose root
 * is no mount point the two mounts that get covered are told alone. */
static int keep_apart(void)
{
	if (!mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		return 0;
	if (errno != EINVAL)
		return errno;
	return mount(NULL, "/sys", NULL, MS_REC | MS_SLAVE, NULL) ||
			       mount(NULL, "/dev", NULL, MS_REC | MS_SLAVE, NULL)
		       ? errno
		       : 0;
}

static int show_both(const struct sysfs_host *host)
{
	bool may_add = !faccessat(AT_FDCWD, "/dev", W_OK, AT_EACCESS);
	struct folder dev = { "/dev", is_ours_in_dev, fill_dev, !may_add };
	struct folder sys = { "/sys/class", is_ours_in_sys, fill_sys, true };
	int err = keep_apart();

	if (err)
		return err;
	err = cover(&dev, host);
	if (err)
		return err;
	err = cover(&sys, host);
	if (err)
		umount2("/dev", MNT_DETACH);
	return err;
}

int view_try(void)
{
	int err = keep_apart();

	return !err && mount(SOURCE, "/dev", "tmpfs", 0, NULL) ? errno : err;
}

int view_show(const struct sysfs_host *host)
{
	mode_t was = umask(022); /* the kernel's folders are everybody's to look at */
	int err = show_both(host);

	umask(was);
	return err;
}
