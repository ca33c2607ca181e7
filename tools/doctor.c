// SPDX-License-Identifier: MIT
/* softhca doctor: what of this machine, and of a program, keeps it from running on softhca. */
#include "doctor.h"
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "libpath.h"
#include "peers/host_names.h"
#include "softhca.h"
#include "terminal.h"
#include "userns.h"
#include "view.h"

static unsigned int wrongs;

void doctor_say(enum finding what, const char *matter, const char *fmt, ...)
{
	static const char *const words[] = { "ok", "note", "wrong" };
	char line[2 * PATH_MAX + 512];
	va_list ap;
	int n = snprintf(line, sizeof(line) / 2, "%-5s  %s: ", words[what], matter);

	if (n > (int)sizeof(line) / 2 - 1)
		n = (int)sizeof(line) / 2 - 1;
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	terminal_clean(line);
	puts(line);
	wrongs += what == FINDING_WRONG;
}

static int try_namespaces(void)
{
	int err = 0;

	if (unshare(CLONE_NEWNS)) {
		err = userns_enter();
		if (!err && unshare(CLONE_NEWNS))
			err = errno;
	}
	return err ? err : view_try();
}

/* As `softhca run` does it, in a child that ends with it. */
static void look_at_namespaces(void)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	signal(SIGCHLD, SIG_DFL); /* ignored, as some hand it on, it leaves nobody to wait for */
	child = fork();
	if (!child)
		_exit(try_namespaces());
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		doctor_say(FINDING_NOTE, "namespaces", "not tried: no process could be made");
	else if (WEXITSTATUS(status))
		doctor_say(
			FINDING_NOTE, "namespaces",
			"not allowed (%s): the device is shown by copied files instead; allow "
			"them by sysctl kernel.unprivileged_userns_clone=1, "
			"kernel.apparmor_restrict_unprivileged_userns=0, or in a container by its "
			"seccomp profile",
			strerror(WEXITSTATUS(status)));
	else
		doctor_say(FINDING_OK, "namespaces", "allowed: /sys and /dev can show the device");
}

/* Scopes 1 and 2 bind nobody who has this; 3 binds all. */
static bool may_trace_all(int scope)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2] = { 0 };

	return scope < 3 && !syscall(SYS_capget, &h, d) && d[0].effective & 1U << CAP_SYS_PTRACE;
}

static void look_at_yama(void)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	if (f && fscanf(f, "%d", &scope) != 1)
		scope = 0;
	if (f)
		fclose(f);
	if (!scope)
		doctor_say(FINDING_OK, "Yama",
			   "processes of one user may reach each other's memory");
	else if (may_trace_all(scope))
		doctor_say(FINDING_OK, "Yama",
			   "ptrace_scope is %d, which does not bind processes with CAP_SYS_PTRACE, "
			   "as this user's here",
			   scope);
	else
		doctor_say(
			FINDING_NOTE, "Yama",
			"ptrace_scope is %d: between processes all data is copied through rings, "
			"which is slower; sysctl kernel.yama.ptrace_scope=0",
			scope);
}

static void look_at_limits(void)
{
	struct rlimit lock, files;

	if (getrlimit(RLIMIT_MEMLOCK, &lock) || getrlimit(RLIMIT_NOFILE, &files))
		return;
	if (lock.rlim_cur == RLIM_INFINITY)
		doctor_say(FINDING_OK, "memlock", "unlimited");
	else
		doctor_say(FINDING_NOTE, "memlock",
			   "%llu KiB: softhca locks no memory, but some programs look at the limit "
			   "and refuse; ulimit -l unlimited",
			   (unsigned long long)lock.rlim_cur / 1024);
	if (files.rlim_cur >= 1024)
		doctor_say(FINDING_OK, "descriptors", "%llu a process",
			   (unsigned long long)files.rlim_cur);
	else
		doctor_say(FINDING_NOTE, "descriptors",
			   "%llu a process, and each peer process takes two; ulimit -n 1024",
			   (unsigned long long)files.rlim_cur);
}

static void look_at_sharing(void)
{
	int fd = memfd_create("softhca-doctor", MFD_CLOEXEC), err = fd < 0 ? errno : 0;
	uint32_t uid;

	if (err) {
		doctor_say(FINDING_WRONG, "shared memory",
			   "memfd_create is refused (%s); allow it in the container's seccomp "
			   "profile",
			   strerror(err));
		return;
	}
	close(fd);
	doctor_say(FINDING_OK, "shared memory", "memfd_create works");
	err = host_names_uid(&uid);
	if (!err)
		err = host_name_bind_any(uid, "doctor", &fd);
	if (!err)
		close(fd);
	if (!err || err == EADDRINUSE) /* another doctor has it */
		doctor_say(FINDING_OK, "meeting point", "processes of this user find each other");
	else
		doctor_say(FINDING_WRONG, "meeting point",
			   "abstract socket names cannot be bound (%s), so each process is alone; "
			   "look at Landlock, AppArmor and the user namespace's uid_map",
			   strerror(err));
}

int cmd_doctor(int argc, char **argv)
{
	char libraries[PATH_MAX];
	int err;

	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		complain("usage: softhca doctor [PROGRAM]");
		return EXIT_USAGE;
	}
	err = libpath_find(libraries, sizeof(libraries));
	if (err) {
		doctor_say(FINDING_WRONG, "libraries", "%s", libpath_why(err));
		libraries[0] = '\0';
	} else {
		doctor_say(FINDING_OK, "libraries", "%s", libraries);
	}
	if (argc == 2)
		doctor_program(argv[1], libraries);
	look_at_namespaces();
	look_at_sharing();
	look_at_yama();
	look_at_limits();
	doctor_network();
	return wrongs ? 1 : 0;
}
