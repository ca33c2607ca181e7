// SPDX-License-Identifier: MIT
#include <limits.h>
#include <stdio.h>
#include "libpath.h"
#include "softhca.h"

/* In single quotes a shell leaves everything alone but the single quote. */
static void print_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	}
	putchar('\'');
}

int cmd_env(int argc, char **argv)
{
	char dir[PATH_MAX];
	int err;

	if (argc > 1) {
		complain("%s takes no argument", argv[0]);
		return EXIT_USAGE;
	}
	err = libpath_find(dir, sizeof(dir));
	if (err) {
		complain("%s", libpath_why(err));
		return EXIT_USAGE;
	}
	fputs("export LD_LIBRARY_PATH=", stdout);
	print_quoted(dir);
	puts("${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}");
	puts("export TSAN_OPTIONS=" LIBPATH_TSAN_OPTION "${TSAN_OPTIONS:+:$TSAN_OPTIONS}");
	return 0;
}
