// SPDX-License-Identifier: MIT
/* Object indices (uidx), by which CQEs name queues (docs/design/completions.md). 24 bits; handed
 * out next-fit, so a stale CQE meets no new object soon.
 * Locking: objects_get() takes no lock. Its caller has a CQ's consumer lock, and an object is
 * removed only after its entries were purged from its CQs under that lock. */
#pragma once
#include <stdint.h>

enum object_kind { OBJECT_NONE, OBJECT_QP, OBJECT_SRQ, OBJECT_WQ };

int objects_add(enum object_kind kind, void *obj, uint32_t *uidx); /* ENOMEM; uidx is never 0 */
void objects_del(uint32_t uidx);
void *objects_get(uint32_t uidx, enum object_kind *kind); /* NULL: none */
