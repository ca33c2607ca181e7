// SPDX-License-Identifier: MIT
/* softhca trace: an empty file for the packets, named in the environment; the rest is softhca run.
 * The libraries append to it, each process of the program a section of its own. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "softhca.h"

static int begin_file(const char *name)
{
	char path[PATH_MAX];
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);

	if (fd < 0)
		return errno;
	close(fd);
	if (!realpath(name, path) || setenv("SOFTHCA_TRACE", path, 1)) /* the program may chdir() */
		return errno;
	return 0;
}

int cmd_trace(int argc, char **argv)
{
	const char *file = "softhca.pcapng";
	int err, used = 0;

	if (argc > 2 && !strcmp(argv[1], "-o")) {
		file = argv[2];
		used = 2;
	}
	argc -= used;
	argv += used;
	if (argc < 2 || (argv[1][0] == '-' && (strcmp(argv[1], "--") || argc < 3))) {
		complain("usage: softhca trace [-o FILE] [--] PROGRAM [ARGUMENT…]");
		return EXIT_USAGE;
	}
	err = begin_file(file);
	if (err) {
		complain("%s: %s", file, strerror(err));
		return EXIT_USAGE;
	}
	return cmd_run(argc, argv);
}
