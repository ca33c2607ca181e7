// SPDX-License-Identifier: MIT
#include "hca/buffer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "obs/explain.h"

struct buffer {
	struct pd *pd;
	uint8_t *memory;
	size_t size; /* bytes */
};

int buffer_create(struct pd *pd, size_t size, struct buffer **out)
{
	static const char call[] = "ibv_alloc_buf";
	int err = pd_use(pd, call);
	struct buffer *b;

	if (err)
		return err;
	if (!size)
		return refuse(EINVAL, "%s: size 0; ask for at least 1 B", call);
	b = calloc(1, sizeof(*b));
	if (!b)
		return refuse(ENOMEM, "%s: no memory; raise the limit (ulimit -v)", call);
	b->size = size;
	b->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->memory == MAP_FAILED) {
		free(b);
		return refuse(ENOMEM,
			      "%s: %zu B cannot be mapped (%s); ask for less, or raise ulimit -v",
			      call, size, strerror(errno));
	}
	b->pd = pd;
	pd_get(pd);
	*out = b;
	return 0;
}

void buffer_destroy(struct buffer *b)
{
	if (!b)
		return;
	munmap(b->memory, b->size);
	pd_put(b->pd);
	free(b);
}

void *buffer_memory(const struct buffer *b)
{
	return b->memory;
}

int buffer_register(struct pd *pd, const struct buffer *b, const struct mr_attr *attr,
		    const char *call, struct mr **out)
{
	uint64_t at = (uintptr_t)attr->addr - (uintptr_t)b->memory;

	if (pd != b->pd)
		return refuse(
			EINVAL,
			"%s: the buffer was allocated on PD 0x%x, not on PD 0x%x; register it "
			"there",
			call, b->pd->pdn, pd->pdn);
	if (at > b->size || attr->len > b->size - at)
		return refuse(EINVAL, "%s: %p+%zu reaches out of the buffer %p+%zu; stay within",
			      call, attr->addr, (size_t)attr->len, (void *)b->memory, b->size);
	return mr_create(pd, attr, out);
}
