// SPDX-License-Identifier: MIT
/* softhca counters: what a running program's link to the network has done. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "softhca.h"
#include "udp/udp_counts.h"

static int failed(const char *pid, int err)
{
	if (err == ENOENT)
		complain("process %s has no link to the network: it is no program on softhca, has "
			 "needed none yet, or runs another version of softhca",
			 pid);
	else
		complain("process %s: %s", pid, strerror(err));
	return 1;
}

int cmd_counters(int argc, char **argv)
{
	struct udp_counts c;
	pid_t pid = argc == 2 ? process_of(argv[1]) : 0;
	int err;

	if (!pid) {
		complain("usage: softhca counters PID");
		return EXIT_USAGE;
	}
	err = udp_counts_of(pid, &c);
	if (err)
		return failed(argv[1], err);
#define X(name, what) printf("%-20s %12" PRIu64 "  %s\n", #name, c.name, what);
	UDP_COUNTS(X)
#undef X
	return 0;
}
