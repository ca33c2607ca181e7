// SPDX-License-Identifier: MIT
/* The meeting point (M1): abstract AF_UNIX names "softhca.<layout>.<uid>.slot.<n>" of this network
 * namespace. A bound name is a slot taken; the kernel gives it back at death. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "link/number.h"

/* In the environment of who was led into a user namespace of its own: "UID:NAME", its user id there
 * and as names carried it before. It is no proof of anything: contacts check who the peer is. */
#define HOST_NAMES_TOLD "SOFTHCA_HOST_UID"

/* The user id as names carry it: one step out of this user namespace, if nothing else was told.
 * EPERM: our uid is not mapped (everybody's is the same overflow id then). */
int host_names_uid(uint32_t *out);
int host_name_bind(uint32_t uid, unsigned int slot, int *fd); /* EADDRINUSE: taken. Listens. */
/* ECONNREFUSED: nobody has it; EAGAIN: later. */
int host_name_connect(uint32_t uid, unsigned int slot, int *fd);
/* The same for the names of other things: "softhca.<layout>.<uid>.<name>". Does not listen. */
int host_name_bind_any(uint32_t uid, const char *name, int *fd);
int host_name_connect_any(uint32_t uid, const char *name, int *fd);
/* Sets the bit of each slot that some process has, as /proc/net/unix tells. */
void host_names_read(uint32_t uid, uint64_t taken[NUMBER_SLOTS / 64]);
