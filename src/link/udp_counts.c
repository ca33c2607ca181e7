// SPDX-License-Identifier: MIT
#include "link/udp_counts.h"
#include <unistd.h>
#include "link/host_memory.h"
#include "util/barrier.h"

#define NAME "softhca-network"

enum { PAGE = 4096 };

int udp_counts_make(struct udp_counts **out, int *fd)
{
	return host_memory_make(NAME, PAGE, HOST_MEMORY_ALLOCATED, fd, (void **)out);
}

void udp_counts_free(struct udp_counts *c)
{
	host_memory_unmap(c, PAGE);
}

void udp_counts_read(const struct udp_counts *from, struct udp_counts *out)
{
#define X(name, what) out->name = load_relaxed(&from->name);
	UDP_COUNTS(X)
#undef X
}

int udp_counts_of(pid_t pid, struct udp_counts *out)
{
	void *page;
	int fd, err = host_memory_find(pid, NAME, false, &fd);

	if (err)
		return err;
	err = host_memory_map(fd, PAGE, false, &page);
	close(fd);
	if (err)
		return err;
	udp_counts_read(page, out);
	host_memory_unmap(page, PAGE);
	return 0;
}
