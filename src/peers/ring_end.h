// SPDX-License-Identifier: MIT
/* One end of a ring with the memory that it lies in: a sealed memfd, made by the consumer and
 * mapped by both. */
#pragma once
#include <stddef.h>
#include "peers/ring.h"

struct ring_end {
	struct ring ring;
	void *map; /* NULL: none */
	size_t len; /* bytes of @map */
};

/* @size: bytes of data. *fd: the caller's to close. A positive errno. */
int ring_end_make(struct ring_end *e, uint32_t size, int *fd);
/* Maps what a peer has made; EPROTO: it is no ring of that size. @fd stays the caller's. */
int ring_end_map(struct ring_end *e, uint32_t size, int fd);
void ring_end_unmap(struct ring_end *e); /* one that was not made is fine */
/* The same at the end that made it. The producer may keep it, and then has memory of its own. */
void ring_end_give_back(struct ring_end *e);
