// SPDX-License-Identifier: MIT
/* What the library writes to files and to stderr, in the program's threads: nobody may be reading
 * (SIGPIPE), and the file may be as long as RLIMIT_FSIZE lets it be (SIGXFSZ). The program, which
 * has written nothing, does not get these signals. */
#pragma once
#include <sys/types.h>

/* As write(2), but it raises no signal and is no point of cancellation. Any thread; in signal
 * handlers, too. */
ssize_t output_write(int fd, const void *bytes, size_t n);
