// SPDX-License-Identifier: MIT
/* Memory of the rings that the driver makes: zeroed, aligned to 64 bytes. A forked child gets a
 * copy of its own, which is of no use. What programs know of (their functions have made it, or it
 * is ring_pages) the child may share with its parent, or not have: it is left alone there.
 * In a parent domain with memory functions these make the ring, aligned to a page and whole pages
 * long, and its doorbell records; else those of the context (mlx5dv_set_context_attr()), of which
 * whole pages are asked, and the records too. They are called in the thread that makes or destroys
 * the queue, under no lock.
 * Pages of the program's functions and ring_pages may be taken away while the queue lives: what is
 * unmapped, or cut off with its file, comes back as zeros at the next access, so that the queue
 * fails and not the process; rights that were taken are given back, but not to a page that is
 * something else of the program's, too. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct context;
struct lent;
struct pd;

struct ring_memory {
	uint8_t *at; /* NULL: none */
	size_t bytes;
	struct lent *from; /* which of the program's functions has made it; NULL: the library */
};

int ring_memory_alloc(size_t size, struct ring_memory *out); /* the library's; ENOMEM */
/* @pd: of any kind, or NULL; @type: MLX5DV_RES_TYPE_*. ENOMEM, with a reason if a function of the
 * program's has failed. */
int ring_memory_alloc_in(struct pd *pd, uint64_t type, size_t size, struct ring_memory *out);
/* Of a queue without a PD; @pd: its parent domain, or NULL. */
int ring_memory_alloc_on(struct context *ctx, struct pd *pd, uint64_t type, size_t size,
			 struct ring_memory *out);
/* Of any origin; the parent domain must still be there (ring_memory_keep()). None is fine; it is
 * none afterwards. */
void ring_memory_free(struct ring_memory *m);
/* If the functions of a queue's parent domain (@pd: any, or NULL) or of the context make doorbell
 * records, *out are those, and *dbrec points to them. */
int ring_memory_record(struct context *ctx, struct pd *pd, uint32_t **dbrec,
		       struct ring_memory *out);
/* Keeps @pd, if its functions make rings, until those of a queue are freed that is being destroyed:
 * the device's half lets go of it before. Returns what to release, or NULL. */
struct pd *ring_memory_keep(struct pd *pd);
void ring_memory_release(struct pd *pd);

/* Whole pages, with nothing in them but rings and behind these their doorbell record: a program
 * that writes rings itself may register them or advise the kernel on them (mlx5dv_init_obj). */
struct ring_pages {
	uint8_t *at; /* NULL: none */
	size_t bytes;
	uint32_t *record; /* on a line of its own */
	uint32_t epoch;
};

int ring_pages_make(size_t rings, struct ring_pages *out); /* bytes of rings; zeroed. ENOMEM */
void ring_pages_free(struct ring_pages *p); /* none is fine */
