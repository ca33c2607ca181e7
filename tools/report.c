// SPDX-License-Identifier: MIT
/* softhca report: traces of one or several processes as a page of HTML. */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include "page.h"
#include "softhca.h"

static int write_page(const struct capture *c, const char *name, const char *path)
{
	char title[256];
	struct flows f;
	FILE *to;
	int err = flows_make(c, &f);

	if (err)
		return err;
	snprintf(title, sizeof(title), "%s", name);
	to = fopen(path, "we");
	err = to ? 0 : errno;
	if (to) {
		page_write(&f, c, basename(title), to);
		err = fflush(to) || ferror(to) ? errno : 0;
		if (fclose(to) && !err)
			err = errno;
	}
	flows_free(&f);
	return err;
}

static int add_all(struct capture *c, char **paths, int n)
{
	for (int i = 0; i < n; i++) {
		int err = capture_add(c, paths[i]);

		if (err) {
			complain("%s: %s", paths[i],
				 err == ENOEXEC ? capture_not_one : strerror(err));
			return EXIT_USAGE;
		}
	}
	capture_sort(c);
	return 0;
}

int cmd_report(int argc, char **argv)
{
	const char *path = "softhca.html";
	struct capture c = { 0 };
	int err;

	if (argc > 2 && !strcmp(argv[1], "-o")) {
		path = argv[2];
		argc -= 2;
		argv += 2;
	}
	if (argc < 2 || argv[1][0] == '-') {
		complain("usage: softhca report [-o PAGE] FILE…");
		return EXIT_USAGE;
	}
	err = add_all(&c, argv + 1, argc - 1);
	if (!err) {
		err = write_page(&c, argv[1], path);
		if (err)
			complain("%s: %s", path, strerror(err));
		else
			printf("%s: %zu packets\n", path, c.count);
	}
	capture_free(&c);
	return err ? EXIT_USAGE : 0;
}
