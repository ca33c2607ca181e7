// SPDX-License-Identifier: MIT
/* One-sided operations on memory that two processes can map (a memfd): no tool of perftest has such
 * buffers. mapped write_lat|write_bw|read_bw BYTES COUNT PORT [HOST]; the client prints a figure:
 * the median time one way in microseconds, or GB/s. */
#include "meet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEPTH 64

static struct meeting m;
static struct ibv_mr *mr;
static uint8_t *buf; /* the first half is the peer's target, the second our source */
static size_t size, count;

static void *mapped(size_t len)
{
	int fd = memfd_create("mapped", MFD_CLOEXEC);
	void *p;

	if (fd < 0 || ftruncate(fd, (off_t)len))
		die("memfd_create");
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die("mmap");
	memset(p, 0, len);
	return p; /* the descriptor stays open: it is how the peer comes to the pages */
}

static void post(enum ibv_wr_opcode op)
{
	struct ibv_sge sge = { (uintptr_t)(buf + size), (uint32_t)size, mr->lkey };
	struct ibv_send_wr wr = { .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;

	wr.wr.rdma.remote_addr = m.ep.theirs.va;
	wr.wr.rdma.rkey = m.ep.theirs.rkey;
	if (ibv_post_send(m.ep.qp, &wr, &bad))
		die("ibv_post_send");
}

/* Each in turn: writes a byte, and spins until the answer has come. Nobody polls for it. */
static void round_trip(uint8_t value)
{
	volatile uint8_t *last = buf + size - 1;
	struct ibv_wc wc;

	if (!m.client)
		while (*last != value)
			;
	memset(buf + size, value, size);
	post(IBV_WR_RDMA_WRITE);
	if (m.client)
		while (*last != value)
			;
	peer_poll_ok(m.ep.scq, &wc);
}

static void latency(void)
{
	double *took = calloc(count, sizeof(*took));

	if (!took)
		die("calloc");
	for (size_t i = 0; i < count; i++) {
		double start = seconds();

		round_trip((uint8_t)(i % 255 + 1));
		took[i] = (seconds() - start) / 2 * 1e6;
	}
	if (m.client)
		printf("%.4f us one way\n", percentile(took, count, 50));
	free(took);
}

static void bandwidth(enum ibv_wr_opcode op)
{
	double start = seconds();
	struct ibv_wc wc;

	if (!m.client)
		return;
	for (size_t posted = 0, done = 0; done < count;) {
		while (posted < count && posted - done < DEPTH) {
			post(op);
			posted++;
		}
		peer_poll_ok(m.ep.scq, &wc);
		done++;
	}
	printf("%.4f GB/s\n", (double)size * count / (seconds() - start) / 1e9);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		fail("usage: mapped write_lat|write_bw|read_bw BYTES COUNT PORT [HOST]");
	size = strtoul(argv[2], NULL, 0);
	count = strtoul(argv[3], NULL, 0);
	meet(&m, atoi(argv[4]), argc > 5, DEPTH, false);
	buf = mapped(2 * size);
	mr = meet_memory(&m, buf, 2 * size);
	peer_sync(m.fd);
	if (!strcmp(argv[1], "write_lat"))
		latency();
	else if (!strcmp(argv[1], "write_bw"))
		bandwidth(IBV_WR_RDMA_WRITE);
	else if (!strcmp(argv[1], "read_bw"))
		bandwidth(IBV_WR_RDMA_READ);
	else
		fail("mapped: unknown figure '%s'", argv[1]);
	meet_end(&m, mr);
	return 0;
}
