// SPDX-License-Identifier: MIT
/* The processes of this host as one of the engine's links (link/links.h). Its descriptor and its
 * deadline are those of host_control(). Since every message needs host_dest() and host_drain() to
 * be fast, the engine calls these two directly. */
#pragma once
#include "link/links.h"
#include "peers/host.h"

/* NULL: no memory. A program just exits, and never frees it. */
struct link *host_link(struct host *h);
