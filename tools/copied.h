// SPDX-License-Identifier: MIT
/* Where no mount can be made: the HCA's files in a folder of the user's own, and the library
 * tools/redirect that leads a program there.
 *
 * The folder is named for what it contains: runs share it, a changed device gets a new one, and
 * none is changed while a program reads it. They stay behind: the machine itself empties
 * XDG_RUNTIME_DIR and /dev/shm. */
#pragma once

#define COPIED_LIBRARY "libsofthca-view.so"

struct sysfs_host;

/* Sets SOFTHCA_VIEW_ROOT and LD_PRELOAD for the program that is to be executed; @libraries is
 * the folder of COPIED_LIBRARY. Positive errno, of the last place where the files cannot be
 * written; ENOTSUP: LD_PRELOAD cannot name the library's path. */
int copied_show(const struct sysfs_host *host, const char *libraries);
