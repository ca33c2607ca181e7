// SPDX-License-Identifier: MIT
#include "softhca.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "commit.h"
#include "terminal.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage, *what;
} commands[] = {
	{ "run", cmd_run, "run [--explain] [--] PROGRAM [ARGUMENT…]",
	  "runs PROGRAM on the software HCA; --explain: with SOFTHCA_EXPLAIN=1" },
	{ "trace", cmd_trace,
	  "trace [-o FILE] [--] PROGRAM [ARGUMENT…] | trace -m [-o FILE] TRACE…",
	  "the same, and writes its packets to FILE (softhca.pcapng); -m: one FILE of several" },
	{ "report", cmd_report, "report [-o PAGE] FILE…",
	  "a page of HTML (softhca.html) that draws the packets of traces between their ends" },
	{ "fault", cmd_fault, "fault PID SPEC", "changes the faults of a running program" },
	{ "counters", cmd_counters, "counters PID",
	  "shows what a running program has sent to the network and received" },
	{ "ps", cmd_ps, "ps", "shows this user's programs, their QPs and what each QP waits for" },
	{ "top", cmd_top, "top [-b] [-n COUNT] [-d SECONDS] [PID]",
	  "shows again and again what programs, or the QPs of one, do in a second" },
	{ "list", cmd_list, "list", "shows the devices, their interfaces and their GIDs" },
	{ "explain", cmd_explain, "explain STATUS|VENDOR_ERR|ERRNO|EVENT",
	  "says what a number or name like 0x88, RETRY_EXC, EINVAL or REJECTED means" },
	{ "doctor", cmd_doctor, "doctor [PROGRAM]",
	  "says what of this machine, or of PROGRAM, keeps it from running on softhca" },
	{ "env", cmd_env, "env", "prints the line that sets up a shell: eval \"$(softhca env)\"" },
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

static const char variables[] =
	"\nEnvironment, in full in softhca(1):\n"
	"  SOFTHCA_DEVICES  mlx5_0=eth0,mlx5_1=lo: the devices and their interfaces\n"
	"  SOFTHCA_EXPLAIN  1: a sentence on stderr for each failure; a path: into that file;\n"
	"                   leaks: also the objects that are left behind\n"
	"  SOFTHCA_FAULT    loss=1%,delay=50us,seed=7: what goes wrong with packets\n"
	"  SOFTHCA_TRACE    a file for the packets\n"
	"  SOFTHCA_LOG      error, warn, info, debug\n"
	"  SOFTHCA_DIRECT   0, 1: who may reach the program's memory without a copy\n"
	"  SOFTHCA_VIEW     0, files: how /sys and /dev show the device\n"
	"  SOFTHCA_MLX5DV   1: programs are told of an mlx5 device, whose rings they may use\n"
	"  SOFTHCA_DOORBELL trap, nap, spin: how stores to the doorbell page are found\n";

void complain(const char *fmt, ...)
{
	char line[2 * PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	terminal_clean(line);
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
	fputs(variables, to);
	return status;
}

static bool asks_for_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int help_of(size_t i)
{
	printf("usage: softhca %s\n\n  %s\n%s", commands[i].usage, commands[i].what, variables);
	return 0;
}

static int run_command(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	if (asks_for_help(word))
		return usage(stdout, 0);
	if (!strcmp(word, "--version")) {
		puts("softhca " SOFTHCA_VERSION " (" SOFTHCA_COMMIT ")");
		return 0;
	}
	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(word, commands[i].name) != 0)
			continue;
		if (argc > 2 && asks_for_help(argv[2]))
			return help_of(i);
		return commands[i].run(argc - 1, argv + 1);
	}
	if (*word)
		complain("there is no command '%s'", word);
	return usage(stderr, EXIT_USAGE);
}

int main(int argc, char **argv)
{
	int status = run_command(argc, argv);

	if (!fflush(stdout) && !ferror(stdout))
		return status;
	complain("not all could be written to standard output: %s", strerror(errno));
	return status ? status : 1;
}
