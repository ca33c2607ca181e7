// SPDX-License-Identifier: MIT
/* What other users' processes have of this one, and whether they may have more: each contact and
 * each connection that may become one costs two descriptors, and a place of those that our own
 * user's processes need (docs/design/security.md). Under host->control. */
#pragma once
#include <stdbool.h>

struct host;
struct trust_name;

/* May there be a connection more with the stranger @name? If not, that is counted and said.
 * @asked: we have begun it. */
bool host_strangers_admit(struct host *h, const struct trust_name *name, bool asked);
