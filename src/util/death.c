// SPDX-License-Identifier: MIT
#include "util/death.h"
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The list of one word that the kernel walks: node -> head. */
static __thread struct robust_list_head head;
static __thread struct robust_list node;

int death_mark(uint32_t *word)
{
	uint32_t me = (uint32_t)syscall(SYS_gettid);

	node.next = &head.list;
	head.list.next = &node;
	head.futex_offset = (long)((uintptr_t)word - (uintptr_t)&node);
	if (syscall(SYS_set_robust_list, &head, sizeof(head)))
		return errno;
	store_release(word, me); /* pairs with death_alive() */
	return 0;
}
