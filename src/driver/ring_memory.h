// SPDX-License-Identifier: MIT
/* Memory of the rings that the driver makes: page aligned, zeroed, and left out of a fork's
 * copies only in so far as copy-on-write does it: a child gets its own, useless, copy.
 * In a parent domain with memory functions they make it: aligned to a page, a multiple of one long.
 * They are called in the thread that makes or destroys the queue, under no lock. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct pd;

int ring_memory_alloc(size_t size, uint8_t **out); /* ENOMEM */
/* @pd: of any kind, or NULL; @type: MLX5DV_RES_TYPE_*. */
int ring_memory_alloc_in(struct pd *pd, uint64_t type, size_t size, uint8_t **out);
/* Of either; a parent domain must still be there. NULL is fine. */
void ring_memory_free(uint8_t *p, size_t size);
