// SPDX-License-Identifier: MIT
/* Memory that two processes can map (docs/design/mapped-memory.md): finding the file behind a range
 * of our memory, and mapping a range of another process' file.
 *
 * Only memory is accepted, tmpfs (memfd, shm_open) and hugetlbfs: a page of any other file may take
 * for ever to come. An access to a mapping may fault when its file has been cut short, so only
 * guarded copies touch it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range of a file, as one process tells another. */
struct mapping_file {
	uint64_t dev, ino;
	uint64_t offset, len; /* bytes */
};

/* The file behind [@addr, @addr + @len) of this process, mapped shared and in one piece, and a
 * descriptor of it in *fd that the program has open for reading and writing, or else for reading:
 * only borrowed, the program may close it at any time. ENOENT: there is none. EBUSY: there are
 * record locks on the file, which a process would lose when we close any descriptor of it. */
int mapping_find(uint64_t addr, uint64_t len, struct mapping_file *out, int *fd);

struct mapping {
	uint8_t *at; /* where the range begins */
	bool writable;
	void *map;
	size_t map_len;
};

/* Maps the range. EPROTO: @fd is not that file, not memory, or too short. @fd stays the caller's.
 * Forked children do not have the mapping. */
int mapping_make(const struct mapping_file *f, int fd, struct mapping *out);
void mapping_end(struct mapping *m); /* one that was not made is fine */
