// SPDX-License-Identifier: MIT
/* What of a program keeps the loader from taking our libraries. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "doctor.h"
#include "binary.h"

static const char *const ours[] = { "libibverbs.so.1", "libmlx5.so.1", "librdmacm.so.1" };
#define OURS (sizeof(ours) / sizeof(*ours))

/* As execvp() looks for it. */
static bool find(const char *name, char out[PATH_MAX])
{
	const char *path = getenv("PATH"), *end;

	if (strchr(name, '/'))
		return snprintf(out, PATH_MAX, "%s", name) < PATH_MAX && !access(out, F_OK);
	for (; path; path = *end ? end + 1 : NULL) {
		end = strchrnul(path, ':');
		if (snprintf(out, PATH_MAX, "%.*s/%s", (int)(end - path), path, name) < PATH_MAX &&
		    !access(out, X_OK))
			return true;
	}
	return false;
}

static void look_at_rights(const char *path)
{
	struct stat st;

	if (!stat(path, &st) && st.st_mode & (S_ISUID | S_ISGID) && geteuid())
		doctor_say(FINDING_WRONG, "rights",
			   "set-%s-ID: the loader does not heed LD_LIBRARY_PATH; run a copy "
			   "without the bit",
			   st.st_mode & S_ISUID ? "user" : "group");
	else if (getxattr(path, "security.capability", NULL, 0) > 0 && geteuid())
		doctor_say(FINDING_WRONG, "rights",
			   "the file has capabilities, so the loader does not heed "
			   "LD_LIBRARY_PATH; run a copy, which has none");
	else
		doctor_say(FINDING_OK, "rights", "none of its own");
}

static bool has_ours(const char *folder, size_t len)
{
	char file[PATH_MAX];

	for (size_t i = 0; i < OURS; i++)
		if (snprintf(file, sizeof(file), "%.*s/%s", (int)len, folder, ours[i]) <
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
static void look_at_paths(const struct binary *e, const char *program)
{
	const char *path, *end;
	uint64_t at;

	if (binary_tag(e, DT_RUNPATH, 0, &at) || !binary_tag(e, DT_RPATH, 0, &at)) {
		doctor_say(FINDING_OK, "library path", "LD_LIBRARY_PATH counts");
		return;
	}
	for (path = binary_string(e, at); path; path = *end ? end + 1 : NULL) {
		end = strchrnul(path, ':');
		if (!leads_to_ours(path, (size_t)(end - path), program))
			continue;
		doctor_say(FINDING_WRONG, "library path",
			   "DT_RPATH goes before LD_LIBRARY_PATH and leads to %.*s; "
			   "patchelf --set-rpath makes a DT_RUNPATH of it, chrpath -d removes it",
			   (int)(end - path), path);
		return;
	}
	doctor_say(FINDING_OK, "library path", "its DT_RPATH has none of our libraries");
}

struct wanted {
	const char *library, *version; /* that is looked for among the defined */
	const struct binary *own; /* our library */
	bool found;
	unsigned int needed, missing;
};

static void match(void *arg, const char *library, const char *version, bool weak)
{
	struct wanted *w = arg;

	(void)library, (void)weak;
	w->found |= !strcmp(version, w->version);
}

static void need(void *arg, const char *library, const char *version, bool weak)
{
	struct wanted *w = arg;

	if (strcmp(library, w->library) != 0)
		return;
	w->version = version;
	w->found = false;
	w->needed++;
	binary_defines(w->own, match, w);
	if (w->found || weak)
		return;
	w->missing++;
	doctor_say(FINDING_WRONG, library,
		   "version %s is missing: the program was built for a newer rdma-core; a newer "
		   "softhca may have it",
		   version);
}

static void look_at_versions(const struct binary *e, const char *library, const char *folder)
{
	struct wanted w = { .library = library };
	char path[PATH_MAX];
	struct binary own;

	if (snprintf(path, sizeof(path), "%s/%s", folder, library) >= (int)sizeof(path) ||
	    binary_open(path, &own)) {
		doctor_say(FINDING_WRONG, library, "is not in %s; install softhca again", folder);
		return;
	}
	w.own = &own;
	binary_needs(e, need, &w);
	if (!w.missing)
		doctor_say(FINDING_OK, library, "has each of the %u versions that it needs",
			   w.needed);
	binary_close(&own);
}

static void look_at_libraries(const struct binary *e, const char *folder)
{
	unsigned int known = 0;
	const char *name;
	uint64_t at;

	for (unsigned int i = 0; binary_tag(e, DT_NEEDED, i, &at); i++) {
		name = binary_string(e, at);
		for (size_t k = 0; name && k < OURS; k++) {
			if (strcmp(name, ours[k]) != 0)
				continue;
			known++;
			if (*folder)
				look_at_versions(e, name, folder);
		}
	}
	if (!known)
		doctor_say(FINDING_NOTE, "RDMA",
			   "it links none of %s, %s, %s itself; if a library or plugin of it does, "
			   "softhca doctor LIBRARY looks at that",
			   ours[0], ours[1], ours[2]);
}

static void complain_of_file(const char *path, int err)
{
	if (err == ENOEXEC)
		doctor_say(
			FINDING_NOTE, "program",
			"%s is no ELF file, a script maybe; softhca doctor with the program that "
			"it starts",
			path);
	else if (err == ENOTSUP)
		doctor_say(FINDING_WRONG, "program",
			   "%s is for another machine or has 32 bits; build it for this one", path);
	else
		doctor_say(FINDING_WRONG, "program", "%s: %s", path, strerror(err));
}

/* A static program that is position-independent has a dynamic section, too. */
static bool is_static(const struct binary *e)
{
	uint64_t value;

	return !e->interp && !binary_tag(e, DT_NEEDED, 0, &value) &&
	       !binary_tag(e, DT_SONAME, 0, &value);
}

void doctor_program(const char *program, const char *libraries)
{
	char path[PATH_MAX];
	struct binary e;
	int err;

	if (!find(program, path)) {
		doctor_say(FINDING_WRONG, "program", "there is no %s in PATH; give its path",
			   program);
		return;
	}
	err = binary_open(path, &e);
	if (err) {
		complain_of_file(path, err);
		return;
	}
	if (is_static(&e)) {
		doctor_say(FINDING_WRONG, "program",
			   "%s is linked statically, so no library can take its place; link it "
			   "with -libverbs, without -static",
			   path);
	} else {
		doctor_say(FINDING_OK, "program", "%s is linked dynamically", path);
		look_at_rights(path);
		look_at_paths(&e, path);
		look_at_libraries(&e, libraries);
	}
	binary_close(&e);
}
