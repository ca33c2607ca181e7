// SPDX-License-Identifier: MIT
/* Memory that a peer on this host may map (docs/design/mapped-memory.md): parts of one memfd, which
 * the process has open as long as there is a part. Where the file has no descriptor or no room, a
 * part is private memory, and the peer copies by system calls.
 *
 * No process can cut the file short, and its pages are allocated with the part, so no access to a
 * part ends in SIGBUS. A forked child has neither the parts nor the file. Any thread. */
#pragma once
#include <stddef.h>

struct arena_part;

/* At least @len zeroed bytes, whole pages. ENOMEM */
int arena_take(size_t len, struct arena_part **out);
void *arena_at(const struct arena_part *p);
void arena_give(struct arena_part *p); /* NULL is fine */
