// SPDX-License-Identifier: MIT
/* The subcommands of the tool. Each gets its own arguments, its name first, and returns the exit
 * status of the tool. */
#pragma once
#include <sys/types.h>

enum { /* as env(1) and the shell have them */
       EXIT_USAGE = 125,
       EXIT_NOT_EXECUTABLE = 126,
       EXIT_NOT_FOUND = 127,
};

int cmd_run(int argc, char **argv); /* returns only when the program could not be started */
int cmd_trace(int argc, char **argv); /* the same */
int cmd_fault(int argc, char **argv);
int cmd_counters(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_env(int argc, char **argv);

/* The process whose number @text is; 0: @text is no such number. */
pid_t process_of(const char *text);
/* One line on stderr, "softhca: …". */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
