// SPDX-License-Identifier: MIT
#include "softhca.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage, *what;
} commands[] = {
	{ "run", cmd_run, "run [--] PROGRAM [ARGUMENT…]", "runs PROGRAM on the software HCA" },
	{ "trace", cmd_trace, "trace [-o FILE] [--] PROGRAM [ARGUMENT…]",
	  "the same, and writes its packets to FILE (softhca.pcapng)" },
	{ "fault", cmd_fault, "fault PID SPEC", "changes the faults of a running program" },
	{ "counters", cmd_counters, "counters PID",
	  "shows what a running program has sent to the network and received" },
	{ "env", cmd_env, "env", "prints the line that sets up a shell: eval \"$(softhca env)\"" },
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

void complain(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fprintf(stderr, "softhca: %s\n", line);
}

pid_t process_of(const char *text)
{
	char *end;
	long pid = strtol(text, &end, 10);

	return !*end && pid > 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

static int usage(FILE *to, int status)
{
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(to, "%s softhca %s\n", i ? "      " : "usage:", commands[i].usage);
	fputs("       softhca --help | --version\n\n", to);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].what);
	return status;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	if (!strcmp(word, "--help") || !strcmp(word, "-h"))
		return usage(stdout, 0);
	if (!strcmp(word, "--version")) {
		puts("softhca " SOFTHCA_VERSION);
		return 0;
	}
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(word, commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	if (*word)
		complain("there is no command '%s'", word);
	return usage(stderr, EXIT_USAGE);
}
