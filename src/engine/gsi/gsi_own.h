// SPDX-License-Identifier: MIT
/* Messages of connection management that this process has read from a network for itself. They need
 * no name: a pair of sockets takes them to the thread of connection management. What the engine's
 * thread has read it keeps until it has left the links' locks, and gives to connection management
 * itself, since two threads that wake each other cost more than what there is to do.
 * One process, one pair: a forked child has none until it opens its own. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "engine/gsi/gsi_names.h"

/* Takes @n messages (struct gsi_mad) in the engine's thread, behind what waits in the pair. False:
 * not now; they go through the pair. */
typedef bool gsi_own_hear(const void *mads, unsigned int n);

/* *in: the end of the pair that connection management reads. @hear: NULL: all goes through it. Once
 * in a process. */
int gsi_own_open(unsigned int slot, gsi_own_hear *hear, int *in);
void gsi_own_close(void); /* *in stays open; in a forked child: what it has inherited */
/* This process has bound the name of @p, listens there, and no other process has the port at an
 * address of it (@owns); or it is about to close the name. Behind gsi_own_open(); one call at a
 * time. One for which there is no room is reached by its name. */
void gsi_own_port(const struct gsi_port *p, bool owns);

/* Any thread. Is @slot, is the port, this process'? The owner of a wildcard owns it alone: no other
 * process has the port at an address of that family. */
bool gsi_own_slot(unsigned int slot);
bool gsi_own_owns(const struct gsi_port *p);
/* A message for this process; EAGAIN: no room. */
int gsi_own_say(const void *m, size_t len);

/* The calling thread is the engine's: what it says is kept until it calls gsi_own_flush(), outside
 * quiesce sections and without locks. */
void gsi_own_keep(void);
void gsi_own_flush(void);
