// SPDX-License-Identifier: MIT
/* Memory of ibv_alloc_buf(): pages of this process, on which regions of one protection domain are
 * registered. A buffer counts as an object on its domain, so the domain outlives it; regions do not
 * count on their buffer, as on any other memory of the program's. */
#pragma once
#include "hca/mr.h"

struct buffer;
struct ibv_buf; /* the handle that programs have; newer headers declare it */

static inline struct buffer *to_buffer(struct ibv_buf *ib)
{
	return (struct buffer *)ib;
}

/* EINVAL: @size is 0. ENOMEM: there is no memory. */
int buffer_create(struct pd *pd, size_t size, struct buffer **out);
void buffer_destroy(struct buffer *b); /* NULL is fine */
void *buffer_memory(const struct buffer *b); /* page aligned, zeroed */
/* mr_create() for bytes of the buffer. EINVAL: @pd is another name than the buffer's, or the range
 * of @attr is not within the buffer. @call names the program's call in the reason. */
int buffer_register(struct pd *pd, const struct buffer *b, const struct mr_attr *attr,
		    const char *call, struct mr **out);
