// SPDX-License-Identifier: MIT
/* A MAD to a process of this host: by a connection, or as a destination of its own that faults can
 * wrap. Any thread. */
#pragma once
#include "engine/gsi/gsi.h"

/* EAGAIN: no room; ENETUNREACH: nobody is there. */
int gsi_say(int fd, const struct gsi_mad *m);

/* Sends @m by a copy of @fd, whatever segment it is given. NULL: no memory or no descriptor. */
struct dest *gsi_say_dest(int fd, const struct gsi_mad *m);
extern const struct link_ops gsi_say_ops;
