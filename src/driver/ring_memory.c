// SPDX-License-Identifier: MIT
#include "driver/ring_memory.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Small rings share pages with others of the heap: 10,000 QPs must not cost a page each. */
#define OWN_MAPPING (64 << 10)

int ring_memory_alloc(size_t size, uint8_t **out)
{
	void *p;

	if (size >= OWN_MAPPING) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return ENOMEM;
		*out = p;
		return 0;
	}
	p = aligned_alloc(64, (size + 63) & ~(size_t)63);
	if (!p)
		return ENOMEM;
	memset(p, 0, size);
	*out = p;
	return 0;
}

void ring_memory_free(uint8_t *p, size_t size)
{
	if (p && size >= OWN_MAPPING)
		munmap(p, size);
	else
		free(p);
}
