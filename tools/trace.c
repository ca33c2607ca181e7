// SPDX-License-Identifier: MIT
/* softhca trace: an empty file for the packets, named in the environment; the rest is softhca run.
 * The libraries append to it, each process of the program a section of its own. With -m traces of
 * several processes become one. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "capture.h"
#include "obs/pcapng.h"
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

static int put_all(const struct capture *c, const char *path)
{
	char comment[PCAPNG_COMMENT + 1];
	int err = pcapng_begin(path);

	for (size_t i = 0; !err && i < c->count; i++) {
		const struct capture_packet *p = &c->packets[i];

		snprintf(comment, sizeof(comment), "%.*s", (int)p->comment_len,
			 p->comment ? p->comment : "");
		err = pcapng_append(path, &(struct pcapng_packet){ p->time, p->outbound, p->frame,
								   p->len, comment });
	}
	return err;
}

/* All are read before @file, which may be one of them, is begun. */
static int merge(const char *file, char **paths, int n)
{
	struct capture c = { 0 };
	const char *about = file;
	int err = 0;

	for (int i = 0; !err && i < n; i++) {
		about = paths[i];
		err = capture_add(&c, about);
	}
	if (!err) {
		about = file;
		capture_sort(&c);
		err = begin_file(file);
	}
	if (!err)
		err = put_all(&c, file);
	capture_free(&c);
	if (err)
		complain("%s: %s", about, err == ENOEXEC ? capture_not_one : strerror(err));
	return err ? EXIT_USAGE : 0;
}

static int usage(void)
{
	complain("usage: softhca trace [-o FILE] [--] PROGRAM [ARGUMENT…], or trace -m [-o FILE] "
		 "TRACE…");
	return EXIT_USAGE;
}

int cmd_trace(int argc, char **argv)
{
	const char *file = "softhca.pcapng";
	bool merged = argc > 1 && !strcmp(argv[1], "-m");
	int err;

	argc -= merged;
	argv += merged;
	if (argc > 2 && !strcmp(argv[1], "-o")) {
		file = argv[2];
		argc -= 2;
		argv += 2;
	}
	if (argc < 2 || (argv[1][0] == '-' && (merged || strcmp(argv[1], "--") || argc < 3)))
		return usage();
	if (merged)
		return merge(file, argv + 1, argc - 1);
	err = begin_file(file);
	if (err) {
		complain("%s: %s", file, strerror(err));
		return EXIT_USAGE;
	}
	return cmd_run(argc, argv);
}
