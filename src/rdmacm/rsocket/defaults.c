// SPDX-License-Identifier: MIT
/* Sizes of new sockets: rsocket(7)'s, or those in /etc/rdma/rsocket. */
#include <stdio.h>
#include "rdmacm/rsocket/sock.h"

enum { QUEUE = 384, BUFFER = 1 << 17, INLINED = 64 };
enum { QUEUE_MIN = 16, QUEUE_MAX = 0x7ffe, BUFFER_MIN = 4096, BUFFER_MAX = 1 << 28 };
enum { INLINED_MIN = 32, INLINED_MAX = 512 };
enum { IDLE_TIME = 7200, INTERVAL = 75, PROBES = 9 }; /* s, s, number: Linux's of keepalive */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t sq = QUEUE, rq = QUEUE, inlined = INLINED, sndbuf = BUFFER, rcvbuf = BUFFER, iomaps;

static uint32_t within(uint32_t n, uint32_t min, uint32_t max)
{
	return n < min ? min : n > max ? max : n;
}

static void from_file(const char *name, uint32_t min, uint32_t max, uint32_t *out)
{
	char path[64];
	unsigned int n;
	FILE *f;

	snprintf(path, sizeof(path), "/etc/rdma/rsocket/%s", name);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fscanf(f, "%9u", &n) == 1) // NOLINT(cert-err34-c): nine digits always fit
		*out = within(n, min, max);
	fclose(f);
}

static void read_files(void)
{
	from_file("sqsize_default", QUEUE_MIN, QUEUE_MAX, &sq);
	from_file("rqsize_default", QUEUE_MIN, QUEUE_MAX, &rq);
	from_file("inline_default", INLINED_MIN, INLINED_MAX, &inlined);
	from_file("wmem_default", BUFFER_MIN, BUFFER_MAX, &sndbuf);
	from_file("mem_default", BUFFER_MIN, BUFFER_MAX, &rcvbuf);
	from_file("iomap_size", 0, IOMAPS_MAX, &iomaps);
}

void sock_defaults(struct sock *s)
{
	pthread_once(&once, read_files);
	s->opt.sq = sq;
	s->opt.rq = rq;
	s->opt.inlined = inlined;
	s->opt.sndbuf = sndbuf & ~1U;
	s->opt.rcvbuf = rcvbuf & ~1U;
	s->opt.iomaps = sock_iomaps(iomaps);
	s->opt.keep_idle = IDLE_TIME;
	s->opt.keep_interval = INTERVAL;
	s->opt.keep_count = PROBES;
}

uint32_t sock_iomaps(uint32_t n)
{
	n = within(n, 0, IOMAPS_MAX);
	return n <= 128 ? n : (n + 255) & ~255U; /* what its 8 bits can say */
}

uint64_t sock_keep_idle(const struct sock *s)
{
	return (uint64_t)s->opt.keep_idle * 1000000000U;
}

uint32_t sock_queue(uint32_t n)
{
	return within(n, QUEUE_MIN, QUEUE_MAX);
}

uint32_t sock_buffer(uint32_t n)
{
	return within(n, BUFFER_MIN, BUFFER_MAX) & ~1U;
}

uint32_t sock_inlined(uint32_t n)
{
	return within(n, INLINED_MIN, INLINED_MAX);
}
