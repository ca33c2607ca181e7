// SPDX-License-Identifier: MIT
#include "tree.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* FNV-1a, over the end mark too. */
static void add_to_sum(struct tree *t, const char *text)
{
	do
		t->sum = (t->sum ^ (uint8_t)*text) * 0x100000001b3;
	while (*text++);
}

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
	add_to_sum(t, path);
	make_folders(t, path, 0);
}

void tree_put(struct tree *t, const char *path, const char *fmt, ...)
{
	va_list ap;
	char *text;
	int fd;

	make_folders(t, path, 1);
	if (t->err)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	fd = text ? openat(t->dir, path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600) : -1;
	if (fd < 0 || dprintf(fd, "%s\n", text) < 0 || fchmod(fd, 0444))
		t->err = errno;
	if (fd >= 0)
		close(fd);
	if (!t->err) {
		add_to_sum(t, path);
		add_to_sum(t, text);
	}
	free(text);
}

void tree_link(struct tree *t, const char *path, const char *target)
{
	add_to_sum(t, path);
	add_to_sum(t, target);
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
	t->sum = t->sum * 31 + below->sum;
}
