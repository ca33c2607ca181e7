// SPDX-License-Identifier: MIT
/* Protection domains: a number that keys, queue pairs, SRQs and AHs of one owner share. A domain
 * can have several names (struct pd): the one it was allocated by, imported ones, and parent
 * domains, which add a thread domain and memory functions. All of them have the same pdn.
 * References: every object keeps a reference on the name it was made with and on the domain itself
 * (@base); pd_destroy() answers EBUSY until they are gone. A parent domain counts as an object of
 * its domain.
 * Memory: a name is freed when its owner and its last object have left it, so an imported name may
 * be given up (pd_unimport()) while objects made with it live on. A domain ends when it is
 * destroyed, or with the last of its names and objects. */
#pragma once
#include "hca/device.h"

struct td {
	struct ibv_td ib; /* first */
	struct context *ctx;
	uint32_t epoch;
	uint32_t refs; /* atomic: parent domains */
};

enum pd_kind { PD_PLAIN, PD_IMPORTED, PD_PARENT };

struct pd {
	struct ibv_pd ib; /* first */
	struct context *ctx;
	uint32_t epoch;
	uint32_t pdn; /* 24 bits, never 0, unique in the process and its children */
	uint32_t refs; /* atomic: objects made with it; of a base: also with its other names */
	uint32_t holders; /* atomic: users of this struct: the owner, objects, other names */
	enum pd_kind kind;
	struct pd *base; /* the domain itself */
	bool gone; /* of a base: it has ended; PD_PARENT: it counts no more on its base and td */
	struct list node; /* of a base: on its context's list */
	struct td *td; /* PD_PARENT: or NULL */
	struct ibv_parent_domain_init_attr memory; /* PD_PARENT: alloc, free, pd_context */
};

static inline struct pd *to_pd(struct ibv_pd *ib)
{
	return (struct pd *)ib;
}

int pd_create(struct context *ctx, struct pd **out);
/* EBUSY while objects refer to it. By an imported name it destroys the domain; by a parent domain
 * only the parent domain. */
int pd_destroy(struct pd *pd);
/* Called before an object is made with it. With a reason: EIO, it is inherited (fork) or its
 * context is closed; EINVAL, it was destroyed by another name. */
int pd_use(struct pd *pd, const char *call);
void pd_get(struct pd *pd);
void pd_put(struct pd *pd);

/* Another name for the domain with @handle of @ctx's file. EINVAL: there is none. */
int pd_import(struct context *ctx, uint32_t handle, struct pd **out);
void pd_unimport(struct pd *pd);
/* ibv_alloc_parent_domain(): EINVAL: no PD, unknown comp_mask bits, half a pair of functions, PD or
 * TD of another device. */
int pd_create_parent(struct context *ctx, const struct ibv_parent_domain_init_attr *attr,
		     struct pd **out);
/* Zeroed memory from a parent domain's functions. NULL: it has none, or they ask for the default
 * (*err is as before); or they refused, and *err is ENOMEM. */
void *pd_memory_alloc(struct pd *pd, size_t size, size_t align, uint64_t type, int *err);
void pd_memory_free(struct pd *pd, void *p, uint64_t type);

int td_create(struct context *ctx, const struct ibv_td_init_attr *attr, struct td **out);
int td_destroy(struct td *td); /* EBUSY while a parent domain uses it */
