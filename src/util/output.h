// SPDX-License-Identifier: MIT
/* What the library writes to files and to stderr, in the program's threads: nobody may be reading
 * (SIGPIPE), and the file may be as long as RLIMIT_FSIZE lets it be (SIGXFSZ). The program, which
 * has written nothing, does not get these signals. */
#pragma once
#include <limits.h>
#include <sys/types.h>

/* Relative names begin in the folder in which the process is now. The first call counts. */
void output_begin(void);
/* The file of that name, from the root: the program may leave the folder in which it has begun to
 * use the library. ENAMETOOLONG. */
int output_path(const char *name, char path[PATH_MAX]);

/* As write(2), but it raises no signal and is no point of cancellation. Any thread; in signal
 * handlers, too. */
ssize_t output_write(int fd, const void *bytes, size_t n);
