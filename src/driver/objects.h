// SPDX-License-Identifier: MIT
/* Object indices (uidx): what a CQE names (M32). 24 bits; an index is handed out next-fit, so a
 * stale CQE meets no new object soon. Locking: objects_get() is lock-free inside a CQ's consumer
 * lock: an object is removed only after its CQEs were purged from its CQs. */
#pragma once
#include <stdint.h>

enum object_kind { OBJECT_NONE, OBJECT_QP, OBJECT_SRQ, OBJECT_WQ };

int objects_add(enum object_kind kind, void *obj, uint32_t *uidx); /* ENOMEM */
void objects_del(uint32_t uidx);
void *objects_get(uint32_t uidx, enum object_kind *kind); /* NULL: none */
