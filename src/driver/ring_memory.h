// SPDX-License-Identifier: MIT
/* Memory of the rings that the driver makes: page aligned, zeroed, and left out of a fork's
 * copies only in so far as copy-on-write does it: a child gets its own, useless, copy. */
#pragma once
#include <stddef.h>
#include <stdint.h>

int ring_memory_alloc(size_t size, uint8_t **out); /* ENOMEM */
void ring_memory_free(uint8_t *p, size_t size); /* NULL is fine */
