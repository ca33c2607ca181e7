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
#include <sys/stat.h>
#include <unistd.h>
#include "capture.h"
#include "obs/pcapng.h"
#include "softhca.h"

static int begin_file(const char *name)
{
	char path[PATH_MAX];
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	int fd = open(name, flags, 0600);

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
	bool half;
	int err = pcapng_begin(path);

	for (size_t i = 0; !err && i < c->count; i++) {
		const struct capture_packet *p = &c->packets[i];
		struct pcapng_packet to = { p->time, p->outbound, p->frame, p->len, comment };

		snprintf(comment, sizeof(comment), "%.*s", (int)p->comment_len,
			 p->comment ? p->comment : "");
		err = pcapng_append(path, &to, &half);
	}
	return err;
}

/* Beside @file first, which may be one of those that were read: a full disk loses none. */
static int put_beside(const struct capture *c, const char *file, mode_t mode)
{
	char fresh[PATH_MAX];
	int fd, err;

	if (snprintf(fresh, sizeof(fresh), "%s.XXXXXX", file) >= (int)sizeof(fresh))
		return ENAMETOOLONG;
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return errno;
	err = fchmod(fd, mode) ? errno : 0;
	close(fd);
	if (!err)
		err = put_all(c, fresh);
	if (!err && rename(fresh, file))
		err = errno;
	if (err)
		unlink(fresh);
	return err;
}

static int put_file(const struct capture *c, const char *file)
{
	char real[PATH_MAX];
	struct stat st;
	int err = EACCES;

	if (realpath(file, real) && !stat(real, &st) && S_ISREG(st.st_mode))
		err = put_beside(c, real, st.st_mode & 0777);
	if (err != EACCES) /* a folder where nothing can be made */
		return err;
	err = begin_file(file);
	return err ? err : put_all(c, file);
}

static bool is_same(const char *file, const char *other)
{
	struct stat a, b;

	return !stat(file, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* EBADMSG: what cannot be read of @path would be lost, since it is what @file names. */
static int read_file(struct capture *c, const char *path, const char *file)
{
	size_t was = c->cut;
	int err = capture_add(c, path);

	if (err || c->cut == was)
		return err;
	if (is_same(path, file))
		return EBADMSG;
	complain("%s: a part of it cannot be read and is left out", path);
	return 0;
}

static const char *why(int err)
{
	if (err == EBADMSG)
		return "a part of it cannot be read, and would be lost: name another file by -o";
	return err == ENOEXEC ? capture_not_one : strerror(err);
}

static int merge(const char *file, char **paths, int n)
{
	struct capture c = { 0 };
	const char *about = file;
	int err = 0;

	for (int i = 0; !err && i < n; i++) {
		about = paths[i];
		err = read_file(&c, about, file);
	}
	if (!err) {
		about = file;
		capture_sort(&c);
		err = put_file(&c, file);
	}
	capture_free(&c);
	if (err)
		complain("%s: %s", about, why(err));
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
