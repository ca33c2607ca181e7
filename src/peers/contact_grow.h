// SPDX-License-Identifier: MIT
/* Rings grow: the consumer offers a ring of twice the size when the producer has waited for space
 * too often. Under host->control. */
#pragma once
#include <stdint.h>

struct contact;

void contact_grow(struct contact *c); /* a larger ring where the peer waited too often */
int contact_take_ring(struct contact *c, uint32_t size, int fd); /* the peer's offer */
