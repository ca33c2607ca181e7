// SPDX-License-Identifier: MIT
/* softhca fault: new settings for a program that was started with SOFTHCA_FAULT. */
#include <errno.h>
#include <string.h>
#include "link/fault_live.h"
#include "softhca.h"

static int failed(const char *pid, int err)
{
	if (err == ENOENT)
		complain(
			"process %s has no faults to change: it was started without SOFTHCA_FAULT, "
			"or has no connection yet; an empty SOFTHCA_FAULT= will do",
			pid);
	else
		complain("process %s: %s", pid, strerror(err));
	return 1;
}

int cmd_fault(int argc, char **argv)
{
	struct fault_config cfg;
	pid_t pid = argc == 3 ? process_of(argv[1]) : 0;
	int err;

	if (!pid) {
		complain("usage: softhca fault PID SPEC");
		return EXIT_USAGE;
	}
	if (fault_parse(argv[2], &cfg)) {
		complain("'%s' is not understood; a setting is like "
			 "loss=1%%,delay=50us,qp=0x412,seed=7",
			 argv[2]);
		return EXIT_USAGE;
	}
	err = fault_live_write(pid, argv[2]);
	return err ? failed(argv[1], err) : 0;
}
