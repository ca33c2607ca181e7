// SPDX-License-Identifier: MIT
#include "peers/ring_end.h"
#include <errno.h>
#include "util/sealed.h"

int ring_end_make(struct ring_end *e, uint32_t size, int *fd)
{
	int err;

	e->len = RING_CTL + size;
	err = sealed_make("softhca-ring", e->len, SEALED_ALLOCATED, fd, &e->map);
	if (!err)
		ring_init(&e->ring, e->map, size);
	return err;
}

int ring_end_map(struct ring_end *e, uint32_t size, int fd)
{
	int err;

	if (size < RING_MIN || size > RING_MAX || (size & (size - 1)))
		return EPROTO;
	e->len = RING_CTL + size;
	err = sealed_map(fd, e->len, true, &e->map);
	if (!err)
		ring_init(&e->ring, e->map, size);
	return err;
}

void ring_end_give_back(struct ring_end *e)
{
	sealed_give_back(e->map, e->len);
	*e = (struct ring_end){ 0 };
}

void ring_end_unmap(struct ring_end *e)
{
	sealed_unmap(e->map, e->len);
	*e = (struct ring_end){ 0 };
}
