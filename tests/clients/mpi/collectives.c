// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include "ranks.h"

/* Number @i of rank @from for rank @to; small enough that sums over ranks do not wrap. */
static uint64_t number(int from, int to, int i)
{
	return (uint64_t)(from + 1) * 1000003 + (uint64_t)(to + 1) * 10007 + (uint64_t)i;
}

static void same(const struct rank *r, const char *what, int i, uint64_t got, uint64_t want)
{
	if (got != want)
		die(r, what, (size_t)i);
}

static void from_root(struct rank *r, uint64_t *buf, int n)
{
	for (int root = 0; root < r->size; root++) {
		for (int i = 0; i < n; i++)
			buf[i] = r->me == root ? number(root, 7, i) : 0;
		MPI_Bcast(buf, n, MPI_UINT64_T, root, r->comm);
		for (int i = 0; i < n; i++)
			same(r, "of a broadcast is wrong", i, buf[i], number(root, 7, i));
	}
}

static void sums(struct rank *r, uint64_t *mine, uint64_t *sum, int n)
{
	for (int i = 0; i < n; i++)
		mine[i] = number(r->me, 0, i);
	MPI_Allreduce(mine, sum, n, MPI_UINT64_T, MPI_SUM, r->comm);
	for (int i = 0; i < n; i++) {
		uint64_t want = 0;

		for (int k = 0; k < r->size; k++)
			want += number(k, 0, i);
		same(r, "of a sum over ranks is wrong", i, sum[i], want);
	}
	MPI_Scan(mine, sum, n, MPI_UINT64_T, MPI_SUM, r->comm);
	for (int i = 0; i < n; i++) {
		uint64_t want = 0;

		for (int k = 0; k <= r->me; k++)
			want += number(k, 0, i);
		same(r, "of a scan is wrong", i, sum[i], want);
	}
}

static void to_each(struct rank *r, uint64_t *out, uint64_t *in, int n)
{
	for (int k = 0; k < r->size; k++)
		for (int i = 0; i < n; i++)
			out[k * n + i] = number(r->me, k, i);
	MPI_Alltoall(out, n, MPI_UINT64_T, in, n, MPI_UINT64_T, r->comm);
	for (int k = 0; k < r->size; k++)
		for (int i = 0; i < n; i++)
			same(r, "of an all-to-all is wrong", k * n + i, in[k * n + i],
			     number(k, r->me, i));
	MPI_Allgather(out, n, MPI_UINT64_T, in, n, MPI_UINT64_T, r->comm);
	for (int k = 0; k < r->size; k++)
		for (int i = 0; i < n; i++)
			same(r, "of an all-gather is wrong", k * n + i, in[k * n + i],
			     number(k, 0, i));
}

void collectives(struct rank *r, int count)
{
	size_t all = (size_t)count * (size_t)r->size;
	uint64_t *out = calloc(all, sizeof(*out)), *in = calloc(all, sizeof(*in));

	if (!out || !in)
		die(r, "numbers do not fit into memory", all);
	from_root(r, out, count);
	sums(r, out, in, count);
	to_each(r, out, in, count);
	MPI_Barrier(r->comm);
	free(out);
	free(in);
}
