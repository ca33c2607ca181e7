// SPDX-License-Identifier: MIT
/* What this process publishes for its peers (host_page.h). */
#pragma once

struct host;

int host_publish_start(struct host *h); /* makes the pages; h->cfg is set */
