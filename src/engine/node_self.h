// SPDX-License-Identifier: MIT
/* This process' node. */
#pragma once

struct node;

extern struct node *node_current; /* in a forked child at first that of its parent; atomic */

/* NULL before the first node_hca(), also in a forked child. */
struct node *node_self(void);
