// SPDX-License-Identifier: MIT
/* Memory shared between processes: sealed memfds (docs/design/meeting-point.md). No process can
 * shrink or grow one, so an access never ends in SIGBUS; one that is read-only for peers keeps only
 * its maker's writable mapping. No process can add a seal, which would keep those that map it later
 * from writing. All mappings are MADV_DONTFORK, all descriptors close on exec. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum sealed_use {
	SEALED_SPARSE, /* a page is allocated at its first use */
	SEALED_ALLOCATED, /* all pages at once; ENOMEM or ENOSPC when there are too few */
	SEALED_READONLY, /* sparse; peers can only read */
};

/* Sets the size of a new memfd. EFBIG: beyond RLIMIT_FSIZE, where ftruncate() would kill the
 * program by SIGXFSZ. */
int sealed_size(int fd, size_t len);
/* Makes and maps @len zeroed bytes, a multiple of 4096. EFBIG: as sealed_size() says. */
int sealed_make(const char *name, size_t len, enum sealed_use use, int *fd, void **map);
/* Maps the whole memfd that a peer sent. EPROTO: it is not sealed, has not exactly @len bytes, or
 * has huge pages, of which there may be none left at the first access. */
int sealed_map(int fd, size_t len, bool writable, void **map);
/* Opens the memfd of that name that process @pid has open. ESRCH: no such process; ENOENT: it has
 * none of that name; EACCES: it belongs to another user. */
int sealed_find(pid_t pid, const char *name, bool writable, int *fd);
void sealed_unmap(void *map, size_t len); /* NULL is fine */
/* The same for memory that we have made, not read-only: its pages are freed though a peer still has
 * it mapped or open. What the peer touches of it afterwards is zero, and counts as the peer's. */
void sealed_give_back(void *map, size_t len);
