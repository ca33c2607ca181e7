// SPDX-License-Identifier: MIT
/* Memory regions: an address range, its rights, its key (lkey == rkey, as on mlx5).
 * Lifetime: published by mr_create()'s last step; mr_destroy() and mr_rereg() return when no thread
 * of this process or of a peer touches the old range (quiesce, then the key table's hook).
 * Memory: unmapped, or read-only where the rights need writing, is refused with EFAULT as a kernel
 * would; pages are populated as pinning would do. The MR follows the address space afterwards
 * (ODP's semantics, docs/design/guarded-copies.md), so IBV_ACCESS_ON_DEMAND only leaves out these
 * checks at registration.
 * Kinds: null, device memory and dma-buf regions are made by files of their own, with
 * mr_publish(). */
#pragma once
#include "hca/key_table.h"
#include "hca/pd.h"

enum mr_kind {
	MR_PLAIN,
	MR_IMPLICIT, /* ON_DEMAND, the whole address space */
	MR_NULL,
	MR_DM,
	MR_DMABUF,
	MR_IMPORTED, /* another name of a region */
};

struct mr {
	struct ibv_mr ib; /* first */
	struct pd *pd;
	uint32_t epoch;
	enum mr_kind kind;
	uint64_t iova;
	uint64_t base; /* host address of iova */
	unsigned int access;
	uint32_t windows; /* atomic: windows bound to it; top bit: dereg or rereg is under way */
	void *behind; /* MR_DM, MR_DMABUF: the memory that release() gives back */
	void (*release)(struct mr *mr); /* NULL: there is none */
	bool gone; /* deregistered by another name; atomic */
};

struct mr_attr {
	void *addr;
	uint64_t len; /* bytes */
	uint64_t iova;
	unsigned int access; /* IBV_ACCESS_*; optional ones (bits 20..29) are taken and ignored */
};

int mr_create(struct pd *pd, const struct mr_attr *attr, struct mr **out);
/* EBUSY: a memory window is bound to it. By a second name (MR_IMPORTED) it ends the region, too. */
int mr_destroy(struct mr *mr);
/* @flags: IBV_REREG_MR_*. Only the members that @flags names are looked at (pd may be garbage), but
 * access must be 0 unless it is to change. Returns 0, or an IBV_REREG_MR_ERR_* code with errno set:
 * INPUT for mistakes that libibverbs finds, CMD for those that a device finds. The key stays the
 * same; after an error the region is as before. */
int mr_rereg(struct mr *mr, int flags, struct pd *pd, const struct mr_attr *attr);

/* For windows: from mr_window_begin() to mr_window_end() the region cannot be deregistered. False:
 * it is already being deregistered or changed. Inside a quiesce section. */
bool mr_window_begin(struct mr *mr);
void mr_window_end(struct mr *mr);

/* For the files of each kind (mr_key.c): */
/* EINVAL: bits that @allowed does not have, or remote writing without LOCAL_WRITE. Optional bits
 * pass. */
int mr_access_check(unsigned int access, unsigned int allowed, const char *call);
unsigned int mr_rights(unsigned int access); /* without the optional bits */
/* Makes an MR with the kind, rights and range of @like and the key entry @e; takes references. */
int mr_publish(struct pd *pd, const struct mr *like, const struct key_entry *e, const char *call,
	       struct mr **out);
void mr_set(struct mr *mr, struct pd *pd, const struct mr *like); /* copies kind, range, rights */

int mr_create_null(struct pd *pd, struct mr **out); /* null_mr.c */
void mr_null_fork_begin(void); /* around fork() */
void mr_null_fork_end(void);
/* dmabuf.c; @attr->addr is not looked at. EBADF, EINVAL: not a buffer; or what mmap() says. */
int mr_create_dmabuf(struct pd *pd, const struct mr_attr *attr, uint64_t offset, int fd,
		     struct mr **out);

/* Another name for the region with @handle of @pd's context file. EINVAL: there is none.
 * mr_unimport() frees the name, also when the region was deregistered by another one. */
int mr_import(struct pd *pd, uint32_t handle, struct mr **out);
bool mr_unimport(struct mr *mr); /* false: @mr is an original that is registered; nothing is done */
