// SPDX-License-Identifier: MIT
/* Device memory: sealed memfds, mapped. A device has LIMIT_DM bytes for each process, handed out in
 * pages. Regions on it are zero based and have no address; peers reach it like other memory. The
 * descriptor stays open, so that peers can map the file (docs/design/mapped-memory.md). Imported
 * names share the mapping; the memory is freed with its last name or region.
 * Fork: a child does not have the mapping, as with an adapter's memory. */
#pragma once
#include "hca/mr.h"

struct dm_memory;

struct dm {
	struct ibv_dm ib; /* first */
	struct context *ctx;
	uint32_t epoch;
	struct dm_memory *memory;
};

static inline struct dm *to_dm(struct ibv_dm *ib)
{
	return (struct dm *)ib;
}

/* EINVAL: length 0 or over LIMIT_DM, alignment over 2 MiB, comp_mask; ENOMEM: too little is
 * free. */
int dm_create(struct context *ctx, const struct ibv_alloc_dm_attr *attr, struct dm **out);
int dm_destroy(struct dm *dm); /* EBUSY while a region is registered on it */
/* EFAULT: outside; EINVAL: offset or length is no multiple of 4. */
int dm_write(struct dm *dm, uint64_t off, const void *from, size_t len);
int dm_read(struct dm *dm, uint64_t off, void *to, size_t len);
/* The memory as this process has it mapped. EIO: made before fork(); EINVAL: freed. */
int dm_mapping(const struct dm *dm, void **p, uint64_t *len);
/* EINVAL: range, access flags, no IBV_ACCESS_ZERO_BASED, a PD of another context. */
int dm_register(struct pd *pd, struct dm *dm, const struct mr_attr *attr, struct mr **out);
/* Another name for the memory with @handle of @ctx's file. EINVAL: there is none. */
int dm_import(struct context *ctx, uint32_t handle, struct dm **out);
void dm_unimport(struct dm *dm);
