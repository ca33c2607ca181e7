// SPDX-License-Identifier: MIT
/* The user namespace that all runs of one user on one host (network namespace) share, since
 * processes of sibling namespaces may not reach each other's memory. There is no registry: a
 * member is any living process whose user namespace is our child, owned by us, and whose /sys has
 * the view (view.h). Runs that start at the same time take turns, by an abstract socket name,
 * until exec.
 *
 * Enters it, made where there is none, the user and group mapped to themselves. Afterwards the
 * caller has every capability in it, until exec. Positive errno: user namespaces are not allowed,
 * or give no capability; the caller is then where it was. */
#pragma once

int userns_enter(void);
