// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>
#include "ranks.h"

enum { MARGIN = 0xa5, WINDOW = 8, ROUNDS = 4 };

void rank_init(struct rank *r, MPI_Comm comm, uint64_t seed)
{
	*r = (struct rank){ .comm = comm, .seed = seed };
	MPI_Comm_rank(comm, &r->me);
	MPI_Comm_size(comm, &r->size);
	r->peer = r->me ^ 1;
	if (r->peer >= r->size)
		r->peer = r->me;
	r->out = malloc(ROOM);
	r->in = malloc(ROOM);
	r->in2 = malloc(ROOM);
	if (!r->out || !r->in || !r->in2)
		die(r, "out of memory", 0);
}

void rank_end(struct rank *r)
{
	free(r->out);
	free(r->in);
	free(r->in2);
	MPI_Comm_free(&r->comm);
}

void die(const struct rank *r, const char *what, size_t where)
{
	fprintf(stderr, "rank %d, thread %d: %zu %s\n", r->me, (int)r->seed, where, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static uint64_t start(const struct rank *r, int from, uint64_t number)
{
	return (number + 1) * 0x9e3779b97f4a7c15 ^ (uint64_t)(from + 1) << 40 ^ (r->seed + 1) << 20;
}

void fill(const struct rank *r, uint8_t *buf, size_t len, int from, uint64_t number)
{
	uint64_t x = start(r, from, number);

	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)(next(&x) >> 24);
}

void clear(uint8_t *buf)
{
	memset(buf, MARGIN, ROOM);
}

void check(const struct rank *r, const uint8_t *buf, size_t len, int from, uint64_t number)
{
	uint64_t x = start(r, from, number);

	for (size_t i = 0; i < len; i++)
		if (buf[i] != (uint8_t)(next(&x) >> 24))
			die(r, "is the first byte that is wrong", i);
	for (size_t i = len; i < len + 64; i++)
		if (buf[i] != MARGIN)
			die(r, "is a byte behind the message, and was written", i);
}

void pingpong(struct rank *r, size_t len)
{
	int first = r->me < r->peer, n = (int)len;

	if (r->peer == r->me)
		return;
	for (int i = 0; i < ROUNDS; i++) {
		fill(r, r->out, len, r->me, (uint64_t)i);
		clear(r->in);
		if (first)
			MPI_Send(r->out, n, MPI_BYTE, r->peer, i, r->comm);
		MPI_Recv(r->in, n, MPI_BYTE, r->peer, i, r->comm, MPI_STATUS_IGNORE);
		if (!first)
			MPI_Ssend(r->out, n, MPI_BYTE, r->peer, i, r->comm);
		check(r, r->in, len, r->peer, (uint64_t)i);
	}
}

/* Small ones as a window, whose messages stand one behind the other; large ones alone. */
void crossing(struct rank *r, size_t len)
{
	int window = len <= ROOM / WINDOW - 64 ? WINDOW : 1, n = (int)len;
	size_t step = len + 64;
	MPI_Request all[2 * WINDOW];

	clear(r->in);
	for (int i = 0; i < window; i++) {
		fill(r, r->out + (size_t)i * step, len, r->me, 100 + (uint64_t)i);
		MPI_Irecv(r->in + (size_t)i * step, n, MPI_BYTE, r->peer, 100 + i, r->comm,
			  &all[i]);
	}
	for (int i = window - 1; i >= 0; i--)
		MPI_Isend(r->out + (size_t)i * step, n, MPI_BYTE, r->peer, 100 + i, r->comm,
			  &all[window + i]);
	MPI_Waitall(2 * window, all, MPI_STATUSES_IGNORE);
	for (int i = 0; i < window; i++)
		check(r, r->in + (size_t)i * step, len, r->peer, 100 + (uint64_t)i);
}

/* The message with tag 201 is taken first, so that with 200 has come when its receive is made. */
void unexpected(struct rank *r, size_t len)
{
	MPI_Request sent[2];
	MPI_Status status;
	int n = (int)len, got;

	fill(r, r->out, len, r->me, 200);
	clear(r->in);
	clear(r->in2);
	MPI_Isend(r->out, n, MPI_BYTE, r->peer, 200, r->comm, &sent[0]);
	MPI_Isend(r->out, n, MPI_BYTE, r->peer, 201, r->comm, &sent[1]);
	MPI_Recv(r->in, n, MPI_BYTE, r->peer, 201, r->comm, MPI_STATUS_IGNORE);
	MPI_Probe(MPI_ANY_SOURCE, 200, r->comm, &status);
	MPI_Get_count(&status, MPI_BYTE, &got);
	if (got != n)
		die(r, "bytes are announced by the probe", (size_t)got);
	MPI_Recv(r->in2, got, MPI_BYTE, status.MPI_SOURCE, 200, r->comm, MPI_STATUS_IGNORE);
	MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
	check(r, r->in, len, r->peer, 200);
	check(r, r->in2, len, r->peer, 200);
}
