// SPDX-License-Identifier: MIT
#include "libpath.h"
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* @out = the real path of @base/@rest where that folder has the library. */
static int take_folder(const char *base, const char *rest, char *out, size_t size)
{
	char path[PATH_MAX], real[PATH_MAX], lib[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", base, rest) >= (int)sizeof(path) ||
	    !realpath(path, real))
		return ENOENT;
	if (snprintf(lib, sizeof(lib), "%s/libibverbs.so.1", real) >= (int)sizeof(lib) ||
	    access(lib, F_OK))
		return ENOENT;
	return snprintf(out, size, "%s", real) < (int)size ? 0 : ENOENT;
}

static int find(char *out, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n < 0)
		return ENOSYS;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return ENOENT;
	*slash = '\0';
	if (!take_folder(self, "../lib/softhca", out, size))
		return 0;
	/* PREFIX/lib itself may have a real NIC's libraries: only in a build tree. */
	slash = strrchr(self, '/');
	if (!slash || strcmp(slash, "/tools") != 0)
		return ENOENT;
	return take_folder(self, "../lib", out, size);
}

/* The loader splits LD_LIBRARY_PATH at the first two, and puts other text for the rest. */
static bool loader_reads_otherwise(const char *dir)
{
	static const char *const parts[] = { ":", ";", "$ORIGIN", "$LIB", "$PLATFORM", "${" };

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (strstr(dir, parts[i]))
			return true;
	return false;
}

int libpath_find(char *out, size_t size)
{
	int err = find(out, size);

	return !err && loader_reads_otherwise(out) ? EINVAL : err;
}

const char *libpath_why(int err)
{
	if (err == EINVAL)
		return "the folder of softhca's libraries has a ':', a ';' or a variable of the "
		       "loader like $LIB in its path, so LD_LIBRARY_PATH cannot name it; install "
		       "softhca elsewhere";
	if (err == ENOSYS)
		return "/proc/self/exe cannot be read, so softhca's libraries are not found; mount "
		       "/proc";
	return "libibverbs.so.1 of softhca is not beside this tool; install it again";
}

static int put_before(const char *name, const char *text)
{
	const char *old = getenv(name);
	size_t len = strlen(text);
	char *both;
	int err = 0;

	if (!old || !*old)
		return setenv(name, text, 1) ? ENOMEM : 0;
	if (!strncmp(old, text, len) && (!old[len] || old[len] == ':'))
		return 0;
	if (asprintf(&both, "%s:%s", text, old) < 0)
		return ENOMEM;
	if (setenv(name, both, 1))
		err = ENOMEM;
	free(both);
	return err;
}

int libpath_prepend(const char *dir)
{
	int err = put_before("LD_LIBRARY_PATH", dir);

	return err ? err : put_before("TSAN_OPTIONS", LIBPATH_TSAN_OPTION);
}
