// SPDX-License-Identifier: MIT
#include "udp/udp_counts.h"
#include <unistd.h>
#include "util/barrier.h"
#include "util/sealed.h"

#define NAME "softhca-network.1" /* the number changes with UDP_COUNTS */

enum { PAGE = 4096 };
_Static_assert(sizeof(struct udp_counts) == 9 * 8, "other counters need another number in NAME");

int udp_counts_make(struct udp_counts **out, int *fd)
{
	return sealed_make(NAME, PAGE, SEALED_ALLOCATED, fd, (void **)out);
}

void udp_counts_free(struct udp_counts *c)
{
	sealed_unmap(c, PAGE);
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
	int fd, err = sealed_find(pid, NAME, false, &fd);

	if (err)
		return err;
	err = sealed_map(fd, PAGE, false, &page);
	close(fd);
	if (err)
		return err;
	udp_counts_read(page, out);
	sealed_unmap(page, PAGE);
	return 0;
}
