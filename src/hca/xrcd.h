// SPDX-License-Identifier: MIT
/* A program's handles on XRC domains. The engine keeps the domain (xrc/xrc_domain.h), which
 * other processes may share. SRQs and target QPs that were made or opened by a handle have a
 * reference to it; xrcd_idle() answers EBUSY until they are gone. */
#pragma once
#include "hca/device.h"

struct xrc_domain;

struct xrcd {
	struct ibv_xrcd ib; /* first */
	struct context *ctx;
	uint32_t epoch;
	uint32_t refs; /* atomic: objects made through it */
	struct xrc_domain *domain;
};

static inline struct xrcd *to_xrcd(struct ibv_xrcd *ib)
{
	return (struct xrcd *)ib;
}

int xrcd_create(struct context *ctx, struct xrc_domain *domain, struct xrcd **out);
int xrcd_idle(const struct xrcd *x); /* EBUSY while objects refer to it */
void xrcd_free(struct xrcd *x);
/* Called before an object is made with it. EIO with a reason: it is inherited (fork), or its
 * context is closed. */
int xrcd_use(struct xrcd *x, const char *call);
void xrcd_get(struct xrcd *x);
void xrcd_put(struct xrcd *x);
