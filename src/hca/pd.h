// SPDX-License-Identifier: MIT
/* Protection domains: a number that keys, queue pairs, SRQs and AHs of one owner share.
 * Every object made on it holds a reference; pd_destroy() answers EBUSY until they are gone. */
#pragma once
#include "hca/device.h"

struct pd {
	struct ibv_pd ib; /* first */
	struct context *ctx;
	uint32_t epoch;
	uint32_t pdn; /* 24 bits, never 0, unique in the process and its children */
	uint32_t refs; /* atomic: objects on it */
};

static inline struct pd *to_pd(struct ibv_pd *ib)
{
	return (struct pd *)ib;
}

int pd_create(struct context *ctx, struct pd **out);
int pd_destroy(struct pd *pd); /* EBUSY while objects refer to it */
/* Before an object is made on it: EIO with a reason when it is inherited (fork) or its context is
 * closed. */
int pd_use(struct pd *pd, const char *call);
void pd_get(struct pd *pd);
void pd_put(struct pd *pd);
