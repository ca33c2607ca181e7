// SPDX-License-Identifier: MIT
/* Rings grow: the consumer offers a ring of twice the size when the producer has waited for space
 * too often. Under host->control. */
#pragma once
#include <stdint.h>

struct contact;

/* Offers a larger ring if the peer has waited too often; ends the one that it has left. */
void contact_grow(struct contact *c, uint64_t now);
int contact_take_ring(struct contact *c, uint32_t size, int fd); /* takes the peer's offer */
