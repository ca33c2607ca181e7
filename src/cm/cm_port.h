// SPDX-License-Identifier: MIT
/* Ports: which id of which process has one (rules as Linux's; gsi_names.h between processes), and
 * which listening id a request is for. Under cm.lock. */
#pragma once
#include "cm/cm_state.h"

/* Gives id->src its port, a random one for 0. EADDRINUSE, EADDRNOTAVAIL, EACCES (below 1024). */
int cm_port_bind(struct cm_id *id, const char *call);
/* EADDRINUSE: another id listens there. Takes the names of an id with REUSEADDR. */
int cm_port_listen(struct cm_id *id);
/* A port for the way from id->src to id->dst, if the id has none or one that another id has for the
 * same way: no two ids of this process share both ends, unless the program has bound them to one
 * port. EADDRNOTAVAIL: all ephemeral ports are in use for that destination. */
int cm_port_resolve(struct cm_id *id);
void cm_port_free(struct cm_id *id);
/* The id that listens at @to (with port); NULL none. */
struct cm_id *cm_port_listener(uint32_t ps, const struct sockaddr_storage *to);
/* @ready is called when a process has connected to the name of a port. */
void cm_port_on_guest(void (*ready)(struct cm_watch *w));
