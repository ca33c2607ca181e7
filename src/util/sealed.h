// SPDX-License-Identifier: MIT
/* Memory shared between processes: sealed memfds (M1). Nobody can shrink or grow one, so an access
 * never ends in SIGBUS; one that is made read-only for others keeps only its maker's writable
 * mapping. All mappings are MADV_DONTFORK, all descriptors close on exec. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum sealed_use {
	SEALED_SPARSE, /* pages come with their first use */
	SEALED_ALLOCATED, /* all of it now, ENOMEM or ENOSPC when there is none */
	SEALED_READONLY, /* sparse; others can only read */
};

/* @len: a multiple of 4096. Zeroed. */
int sealed_make(const char *name, size_t len, enum sealed_use use, int *fd, void **map);
/* Maps all of what a peer sent. EPROTO: not sealed, or not of exactly @len bytes. */
int sealed_map(int fd, size_t len, bool writable, void **map);
/* The one of that name that a process has open. ESRCH: there is no such process; ENOENT: it has
 * none; EACCES: it is another user's. */
int sealed_find(pid_t pid, const char *name, bool writable, int *fd);
void sealed_unmap(void *map, size_t len); /* NULL is fine */
