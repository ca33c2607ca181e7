// SPDX-License-Identifier: MIT
/* Memory of the rings that the driver makes: zeroed, aligned to 64 bytes. A forked child gets a
 * copy of its own, which is of no use.
 * In a parent domain with memory functions these make the ring, aligned to a page and whole pages
 * long. They are called in the thread that makes or destroys the queue, under no lock. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct pd;

int ring_memory_alloc(size_t size, uint8_t **out); /* ENOMEM */
/* @pd: of any kind, or NULL; @type: MLX5DV_RES_TYPE_*. */
int ring_memory_alloc_in(struct pd *pd, uint64_t type, size_t size, uint8_t **out);
/* Of either origin; the parent domain must still be there. NULL is fine. */
void ring_memory_free(uint8_t *p, size_t size);
