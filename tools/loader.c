// SPDX-License-Identifier: MIT
#include "loader.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

const char *const loader_ours[] = { "libibverbs.so.1", "libmlx5.so.1", "librdmacm.so.1" };

enum { OVERFLOW_ID = 65534 }; /* how an id without a name in this user namespace shows */

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* A part of PATH that is empty is the working folder. */
bool loader_find(const char *name, char out[PATH_MAX])
{
	const char *path = getenv("PATH"), *end;

	if (!path)
		path = "/bin:/usr/bin";
	if (strchr(name, '/'))
		return snprintf(out, PATH_MAX, "%s", name) < PATH_MAX && !access(out, F_OK);
	for (; path; path = *end ? end + 1 : NULL) {
		end = strchrnul(path, ':');
		if (snprintf(out, PATH_MAX, "%.*s%s%s", (int)(end - path), path,
			     end == path ? "./" : "/", name) < PATH_MAX &&
		    is_program(out))
			return true;
	}
	return false;
}

/* A static program that is position-independent has a dynamic section, too. */
bool loader_is_static(const struct binary *e)
{
	uint64_t value;

	return !e->interp && !binary_tag(e, DT_NEEDED, 0, &value) &&
	       !binary_tag(e, DT_SONAME, 0, &value);
}

/* An id that the program would get and this process does not have: one without a name here is not
 * given. */
static bool gives(mode_t bits, mode_t bit, unsigned int id, unsigned int own)
{
	return (bits & bit) == bit && id != own && id != OVERFLOW_ID;
}

void loader_rights(const char *path, char why[LOADER_WHY])
{
	struct statvfs fs = { 0 };
	struct stat st;

	why[0] = '\0';
	if (stat(path, &st) || statvfs(path, &fs) || fs.f_flag & ST_NOSUID ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return;
	if (gives(st.st_mode, S_ISUID, st.st_uid, getuid()) ||
	    gives(st.st_mode, S_ISGID | S_IXGRP, st.st_gid, getgid()))
		snprintf(why, LOADER_WHY,
			 "set-%s-ID: the loader does not heed LD_LIBRARY_PATH; run a copy without "
			 "the bit",
			 st.st_mode & S_ISUID ? "user" : "group");
	else if (getxattr(path, "security.capability", NULL, 0) > 0 && geteuid())
		snprintf(why, LOADER_WHY,
			 "the file has capabilities, so the loader does not heed LD_LIBRARY_PATH; "
			 "run a copy, which has none");
}

static bool has_ours(const char *folder, size_t len)
{
	char file[PATH_MAX];

	for (size_t i = 0; i < LOADER_OURS; i++)
		if (snprintf(file, sizeof(file), "%.*s/%s", (int)len, folder, loader_ours[i]) <
			    (int)sizeof(file) &&
		    !access(file, F_OK))
			return true;
	return false;
}

/* One folder of a DT_RPATH, with the program's own for $ORIGIN in front. */
static bool leads_to_ours(const char *folder, size_t len, const char *program)
{
	static const char *const origins[] = { "$ORIGIN", "${ORIGIN}" };
	char real[PATH_MAX], whole[PATH_MAX];

	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(origins[i]);

		if (len < n || strncmp(folder, origins[i], n) != 0 || !realpath(program, real))
			continue;
		*strrchr(real, '/') = '\0';
		if (snprintf(whole, sizeof(whole), "%s%.*s", real, (int)(len - n), folder + n) >=
		    (int)sizeof(whole))
			return false;
		return has_ours(whole, strlen(whole));
	}
	return has_ours(folder, len);
}

/* DT_RPATH goes before LD_LIBRARY_PATH, DT_RUNPATH behind it; of both the latter counts. */
void loader_rpath(const struct binary *e, const char *program, char why[LOADER_WHY])
{
	const char *path, *end;
	uint64_t at;

	why[0] = '\0';
	if (binary_tag(e, DT_RUNPATH, 0, &at) || !binary_tag(e, DT_RPATH, 0, &at))
		return;
	for (path = binary_string(e, at); path; path = *end ? end + 1 : NULL) {
		end = strchrnul(path, ':');
		if (!leads_to_ours(path, (size_t)(end - path), program))
			continue;
		snprintf(why, LOADER_WHY,
			 "DT_RPATH goes before LD_LIBRARY_PATH and leads to %.*s; patchelf "
			 "--set-rpath makes a DT_RUNPATH of it, chrpath -d removes it",
			 (int)(end - path), path);
		return;
	}
}
