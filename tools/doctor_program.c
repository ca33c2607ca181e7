// SPDX-License-Identifier: MIT
/* What of a program keeps the loader from taking our libraries. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "doctor.h"
#include "loader.h"

enum { MISSING_SHOWN = 8 /* versions of a library that get a line */ };

/* A line of what is in the way, or else of what is fine. */
static void say_unless(const char *matter, const char *why, const char *fine)
{
	doctor_say(*why ? FINDING_WRONG : FINDING_OK, matter, "%s", *why ? why : fine);
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
	if (w->missing++ >= MISSING_SHOWN)
		return;
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
	if (w.missing > MISSING_SHOWN)
		doctor_say(FINDING_WRONG, library, "%u more versions are missing",
			   w.missing - MISSING_SHOWN);
	else if (!w.missing)
		doctor_say(FINDING_OK, library, "has each of the %u versions that it needs",
			   w.needed);
	binary_close(&own);
}

static void look_at_libraries(const struct binary *e, const char *folder)
{
	bool needs[LOADER_OURS] = { false }, any = false;
	const char *name;
	uint64_t at;

	for (unsigned int i = 0; binary_tag(e, DT_NEEDED, i, &at); i++) {
		name = binary_string(e, at);
		for (size_t k = 0; name && k < LOADER_OURS; k++)
			needs[k] |= !strcmp(name, loader_ours[k]);
	}
	for (size_t k = 0; k < LOADER_OURS; k++) {
		any |= needs[k];
		if (needs[k] && *folder)
			look_at_versions(e, loader_ours[k], folder);
	}
	if (!any)
		doctor_say(FINDING_NOTE, "RDMA",
			   "it links none of %s, %s, %s itself; if a library or plugin of it does, "
			   "softhca doctor LIBRARY looks at that",
			   loader_ours[0], loader_ours[1], loader_ours[2]);
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

void doctor_program(const char *program, const char *libraries)
{
	char path[PATH_MAX], why[LOADER_WHY];
	struct binary e;
	int err;

	if (!loader_find(program, path)) {
		doctor_say(FINDING_WRONG, "program", "there is no %s in PATH; give its path",
			   program);
		return;
	}
	err = binary_open(path, &e);
	if (err) {
		complain_of_file(path, err);
		return;
	}
	if (loader_is_static(&e)) {
		doctor_say(FINDING_WRONG, "program",
			   "%s is linked statically, so no library can take its place; link it "
			   "with -libverbs, without -static",
			   path);
	} else {
		doctor_say(FINDING_OK, "program", "%s is linked dynamically", path);
		loader_rights(path, why);
		say_unless("rights", why, "none of its own");
		loader_rpath(&e, path, why);
		say_unless("library path", why, "LD_LIBRARY_PATH counts");
		look_at_libraries(&e, libraries);
	}
	binary_close(&e);
}
