// SPDX-License-Identifier: MIT
#include "tree.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes the folders of @path, without the last part when @parents_only. */
static void make_folders(struct tree *t, const char *path, int parents_only)
{
	char part[PATH_MAX];
	size_t n = 0;

	for (; !t->err && n < sizeof(part) - 1; n++) {
		if (n && (path[n] == '/' || (!path[n] && !parents_only))) {
			part[n] = '\0';
			if (mkdirat(t->dir, part, 0755) && errno != EEXIST)
				t->err = errno;
		}
		if (!path[n])
			return;
		part[n] = path[n];
	}
}

void tree_folder(struct tree *t, const char *path)
{
	make_folders(t, path, 0);
}

void tree_put(struct tree *t, const char *path, const char *fmt, ...)
{
	va_list ap;
	int fd;

	make_folders(t, path, 1);
	if (t->err)
		return;
	fd = openat(t->dir, path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0) {
		t->err = errno;
		return;
	}
	va_start(ap, fmt);
	if (vdprintf(fd, fmt, ap) < 0 || dprintf(fd, "\n") < 0 || fchmod(fd, 0444))
		t->err = errno;
	va_end(ap);
	close(fd);
}

void tree_link(struct tree *t, const char *path, const char *target)
{
	make_folders(t, path, 1);
	if (!t->err && symlinkat(target, t->dir, path))
		t->err = errno;
}

struct tree tree_below(struct tree *t, const char *fmt, ...)
{
	struct tree below = { .dir = -1, .err = t->err };
	char path[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	make_folders(t, path, 0);
	if (!t->err)
		below.dir = openat(t->dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	below.err = t->err ? t->err : below.dir < 0 ? errno : 0;
	return below;
}

void tree_close(struct tree *below, struct tree *t)
{
	if (below->dir >= 0)
		close(below->dir);
	if (!t->err)
		t->err = below->err;
}
