// SPDX-License-Identifier: MIT
/* The folder of the three libraries, found from where the tool itself lies: PREFIX/bin/softhca goes
 * with PREFIX/lib/softhca, and in a build tree BUILD/tools/softhca with BUILD/lib. */
#pragma once
#include <stddef.h>

/* ENOENT: no libibverbs.so.1 in either; EINVAL: one whose path LD_LIBRARY_PATH cannot name; ENOSYS:
 * no /proc. */
int libpath_find(char *out, size_t size);
const char *libpath_why(int err); /* a sentence: what is wrong, and behind a semicolon what to do */
/* A program that is built with ThreadSanitizer sees the malloc(), free() and memcpy() of libraries
 * that are not, but not the atomics which order them. This option in TSAN_OPTIONS keeps it from
 * reporting races inside the libraries that are none. The user's own, behind it, override it. */
#define LIBPATH_TSAN_OPTION "ignore_noninstrumented_modules=1"

/* Puts @dir before what LD_LIBRARY_PATH has, and the option before what TSAN_OPTIONS has; a second
 * time in a row changes nothing. ENOMEM. */
int libpath_prepend(const char *dir);
