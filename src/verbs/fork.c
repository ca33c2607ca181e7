// SPDX-License-Identifier: MIT
/* Fork support as programs ask for it. No memory is pinned, and memory that is shared with
 * other processes is kept out of children where it is mapped: there is nothing to switch on. */
#include <infiniband/verbs.h>
#include "verbs/export.h"

EXPORT int ibv_dontfork_range(void *base, size_t size);
EXPORT int ibv_dofork_range(void *base, size_t size);

EXPORT int ibv_fork_init(void)
{
	return 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

EXPORT int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

EXPORT int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}
