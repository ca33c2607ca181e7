// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include "ranks.h"

enum { COUNTER = 0, SWAPPED = 1, SUM = 2, WORDS = 3, ADDS = 50 };

/* Each rank puts into its successor's window, and gets from its predecessor's what that one put. */
static void put_and_get(struct rank *r, MPI_Win win, uint8_t *mem, size_t len)
{
	int after = (r->me + 1) % r->size, before = (r->me + r->size - 1) % r->size, n = (int)len;

	MPI_Win_fence(0, win);
	fill(r, r->out, len, r->me, len);
	MPI_Put(r->out, n, MPI_BYTE, after, 0, n, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	for (size_t i = len; i < len + 64; i++)
		mem[i] = 0xa5;
	check(r, mem, len, before, len);
	clear(r->in);
	MPI_Win_fence(0, win);
	MPI_Get(r->in, n, MPI_BYTE, after, 0, n, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	check(r, r->in, len, r->me, len);
}

/* The same without the target's help, under a lock; the target then looks. */
static void passive(struct rank *r, MPI_Win win, uint8_t *mem, size_t len)
{
	int after = (r->me + 1) % r->size, before = (r->me + r->size - 1) % r->size, n = (int)len;

	fill(r, r->out, len, r->me, len + 1);
	clear(r->in);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, win);
	MPI_Put(r->out, n, MPI_BYTE, after, 0, n, MPI_BYTE, win);
	MPI_Win_flush(after, win);
	MPI_Get(r->in, n, MPI_BYTE, after, 0, n, MPI_BYTE, win);
	MPI_Win_unlock(after, win);
	check(r, r->in, len, r->me, len + 1);
	MPI_Barrier(r->comm);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, r->me, 0, win);
	check(r, mem, len, before, len + 1);
	MPI_Win_unlock(r->me, win);
	MPI_Barrier(r->comm);
}

/* All ranks count, swap and add in the window of rank 0. */
static void atomics(struct rank *r)
{
	uint64_t *words, one = 1, two = 2, old, mine = (uint64_t)r->me + 1, none = 0;
	uint64_t seen = 0;
	MPI_Win win;

	MPI_Win_allocate(WORDS * sizeof(*words), sizeof(*words), MPI_INFO_NULL, r->comm, &words,
			 &win);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, r->me, 0, win);
	words[COUNTER] = words[SWAPPED] = words[SUM] = 0;
	MPI_Win_unlock(r->me, win);
	MPI_Barrier(r->comm);
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < ADDS; i++) {
		MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, 0, COUNTER, MPI_SUM, win);
		MPI_Win_flush(0, win);
		if (i && old <= seen)
			die(r, "is a count that went back", (size_t)old);
		seen = old;
		MPI_Accumulate(&two, 1, MPI_UINT64_T, 0, SUM, 1, MPI_UINT64_T, MPI_SUM, win);
	}
	MPI_Compare_and_swap(&mine, &none, &old, MPI_UINT64_T, 0, SWAPPED, win);
	MPI_Win_unlock_all(win);
	MPI_Barrier(r->comm);
	if (!r->me) {
		uint64_t all = (uint64_t)r->size * ADDS;

		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		if (words[COUNTER] != all || words[SUM] != 2 * all)
			die(r, "is the count of all ranks", words[COUNTER]);
		if (!words[SWAPPED] || words[SWAPPED] > (uint64_t)r->size)
			die(r, "is nobody's value", words[SWAPPED]);
		MPI_Win_unlock(0, win);
	}
	MPI_Win_free(&win);
}

void one_sided(struct rank *r, size_t len)
{
	uint8_t *mem;
	MPI_Win win;

	MPI_Win_allocate((MPI_Aint)(len + 64), 1, MPI_INFO_NULL, r->comm, &mem, &win);
	for (size_t n = 1; n <= len; n *= 8)
		put_and_get(r, win, mem, n);
	MPI_Win_free(&win);

	mem = calloc(1, len + 64);
	if (!mem)
		die(r, "bytes do not fit into memory", len);
	for (size_t i = 0; i < len + 64; i++)
		mem[i] = 0xa5;
	MPI_Win_create(mem, (MPI_Aint)(len + 64), 1, MPI_INFO_NULL, r->comm, &win);
	passive(r, win, mem, len);
	MPI_Win_free(&win);
	free(mem);
	atomics(r);
}
