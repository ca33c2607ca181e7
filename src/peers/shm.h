// SPDX-License-Identifier: MIT
/* The link to the other processes of this host: the operations of a struct target's destination. */
#pragma once
#include "link/link.h"

struct contact;
struct host;
struct target;

extern const struct link_ops shm_ops;

bool shm_can_go_on(struct target *t); /* may a send() that got EAGAIN succeed now? */
/* Into the contact's ring, in a quiesce section. EAGAIN: full. */
int shm_send_to(struct contact *c, const struct dest *d, const struct seg *s);

/* shm_access.c: other processes' memory, in a quiesce section; see link_ops. */
int shm_fetch_from(struct contact *c, const struct seg *s, uint32_t skip, const struct piece *dst,
		   unsigned int ndst);
int shm_direct_to(struct contact *c, struct direct_ask *ask);
