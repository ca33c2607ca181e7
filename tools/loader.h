// SPDX-License-Identifier: MIT
/* What of a program keeps the loader from taking our libraries for it, as the program would be
 * executed by this process. A sentence is "" where nothing is in the way; else it names what is,
 * and behind a semicolon what to do. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include "binary.h"

enum { LOADER_OURS = 3, LOADER_WHY = PATH_MAX + 256 /* bytes of a sentence, with its end mark */ };
extern const char *const loader_ours[LOADER_OURS]; /* what our libraries are called */

/* As execvp() looks for it. */
bool loader_find(const char *name, char out[PATH_MAX]);
bool loader_is_static(const struct binary *e);
/* Rights of its own, for which the loader does not heed LD_LIBRARY_PATH. */
void loader_rights(const char *path, char why[LOADER_WHY]);
/* A DT_RPATH that leads to other libraries of our names. */
void loader_rpath(const struct binary *e, const char *path, char why[LOADER_WHY]);
