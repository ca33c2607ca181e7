// SPDX-License-Identifier: MIT
/* The messages of a contact's connection, for contact_ring.c. */
#pragma once
#include <stdint.h>

struct contact;

int contact_offer_ring(struct contact *c, uint32_t size, int fd); /* EAGAIN: the socket is full */
