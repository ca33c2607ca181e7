// SPDX-License-Identifier: MIT
/* The view that a run has of /sys/class and /dev, made in a mount namespace of its own: a small
 * tmpfs lies over each, every old entry is bound or linked back in, the HCA's entries are added. In
 * sysfs and in /dev itself no folder can be made. */
#pragma once
#include <stdbool.h>

struct sysfs_host;

/* Wants CAP_SYS_ADMIN over a mount namespace that no other process is in. On an error both folders
 * are as before. Positive errno. */
int view_show(const struct sysfs_host *host);
/* Tries whether view_show() may mount, by a mount over /dev, which stays. Wants the same. */
int view_try(void);
/* True: the process whose mountinfo file @path is has such a view. */
bool view_is_shown(const char *path);
bool view_is_shown_at(int proc_pid); /* the same, of /proc/PID as a descriptor */
