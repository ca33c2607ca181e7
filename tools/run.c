// SPDX-License-Identifier: MIT
/* softhca run: library path, namespaces, then exec in place, so that pid, signals, terminal and
 * exit status are the program's own. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "copied.h"
#include "libpath.h"
#include "loader.h"
#include "sysfs.h"
#include "softhca.h"
#include "userns.h"
#include "view.h"

/* A mount namespace with the HCA in /sys and /dev. A process that may make one needs no user
 * namespace; a user inside that of an earlier run may not, and sees the view of that run. */
static int show_by_mounts(const struct sysfs_host *host, const char **what)
{
	int err;

	if (unshare(CLONE_NEWNS)) {
		if (view_is_shown("/proc/self/mountinfo"))
			return 0;
		*what = "user namespace";
		err = userns_enter();
		if (!err && unshare(CLONE_NEWNS))
			err = errno;
		if (err)
			return err;
	}
	*what = "view of /sys and /dev";
	return view_show(host);
}

/* Shows the device: by mounts, or else by copied files (*@copied). */
static void show_device(const char *how, const char *libraries, bool *copied)
{
	const char *what = "namespace, as SOFTHCA_VIEW wants";
	struct sysfs_host *host;
	int err, failed;

	if (how && *how && strcmp(how, "files"))
		complain("SOFTHCA_VIEW=%s is not heeded; it is one of: 0, files", how);
	err = sysfs_host_read(&host);
	if (err) {
		complain("no device to show in /sys: %s", strerror(err));
		return;
	}
	err = how && !strcmp(how, "files") ? EPERM : show_by_mounts(host, &what);
	failed = err ? copied_show(host, libraries) : 0;
	*copied = err && !failed;
	if (failed == ENOTSUP)
		complain("no %s (%s), and its files cannot be shown, since LD_PRELOAD ends at a "
			 "blank, which is in the path of " COPIED_LIBRARY
			 ": the library path is set; install softhca in a path without blanks, "
			 "SOFTHCA_VIEW=0 silences this",
			 what, strerror(err));
	else if (failed)
		complain("no %s (%s) and no folder for its files (%s): the library path is set, "
			 "/sys/class/infiniband and /dev/infiniband are not shown; a writable /tmp "
			 "or XDG_RUNTIME_DIR helps, SOFTHCA_VIEW=0 silences this",
			 what, strerror(err), strerror(failed));
	sysfs_host_free(host);
}

/* A static program that is about RDMA has names of its files. Others are of no interest, but where
 * the device is shown to dynamic ones only. */
static void look_at_static(const struct binary *e, bool copied, char why[LOADER_WHY])
{
	static const char name[] = "infiniband";

	if (memmem(e->at, e->size, name, strlen(name)))
		snprintf(why, LOADER_WHY,
			 "linked statically, so no library can take its place: it finds no device; "
			 "link it with -libverbs, without -static");
	else if (copied)
		snprintf(why, LOADER_WHY,
			 "linked statically, so it does not see /sys/class/infiniband and "
			 "/dev/infiniband, which are shown by a preloaded library here; allow "
			 "namespaces");
}

/* One line about a program that the loader gives other libraries than ours. */
static void warn_of_escape(const char *program, bool copied)
{
	char path[PATH_MAX], why[LOADER_WHY] = "";
	struct binary e;

	if (!loader_find(program, path) || binary_open(path, &e))
		return;
	if (loader_is_static(&e))
		look_at_static(&e, copied, why);
	else
		loader_rights(path, why);
	if (!*why)
		loader_rpath(&e, path, why);
	binary_close(&e);
	if (*why)
		complain("%s: %s (SOFTHCA_VIEW=0 silences this)", path, why);
}

/* SOFTHCA_VIEW: "0" shows nothing and says nothing, "files" makes no namespace. */
static void prepare(const char *program, const char *libraries)
{
	const char *how = getenv("SOFTHCA_VIEW");
	bool copied = false;

	if (how && !strcmp(how, "0"))
		return;
	show_device(how, libraries, &copied);
	warn_of_escape(program, copied);
}

/* A file that is named stays, and so does "leaks". */
static int ask_for_reasons(void)
{
	const char *value = getenv("SOFTHCA_EXPLAIN");

	return value && *value && strcmp(value, "0") ? 0 : setenv("SOFTHCA_EXPLAIN", "1", 1);
}

int cmd_run(int argc, char **argv)
{
	char dir[PATH_MAX];
	int err;

	if (argc > 1 && !strcmp(argv[1], "--explain")) {
		if (ask_for_reasons())
			argc = 0;
		argv++, argc--;
	}
	if (argc > 1 && !strcmp(argv[1], "--"))
		argv++, argc--;
	else if (argc > 1 && argv[1][0] == '-')
		argc = 0; /* an option, and there is none */
	if (argc < 2) {
		complain("usage: softhca run [--explain] [--] PROGRAM [ARGUMENT…]");
		return EXIT_USAGE;
	}
	err = libpath_find(dir, sizeof(dir));
	if (err) {
		complain("%s", libpath_why(err));
		return EXIT_USAGE;
	}
	err = libpath_prepend(dir);
	if (err) {
		complain("LD_LIBRARY_PATH and TSAN_OPTIONS: %s", strerror(err));
		return EXIT_USAGE;
	}
	prepare(argv[1], dir);
	execvp(argv[1], argv + 1);
	err = errno;
	complain("%s: %s", argv[1], strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
