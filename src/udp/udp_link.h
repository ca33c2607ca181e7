// SPDX-License-Identifier: MIT
/* The network by UDP as one of the engine's links (link/links.h). */
#pragma once
#include "link/links.h"
#include "udp/udp.h"

/* Not open yet: no socket is made before a QP needs one. NULL: no memory. A program just exits, and
 * never frees it. */
struct link *udp_link(const struct udp_config *cfg);
