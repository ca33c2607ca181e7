// SPDX-License-Identifier: MIT
/* ranks [THREADS [EVERY]]: an MPI program that checks every byte that comes in: messages both ways,
 * expected and not; collectives; one-sided operations, active and passive; then messages of each
 * EVERYth size from so many threads of each rank at once. It must be started with at least two
 * ranks. A wrong byte is named and ends all ranks. */
#include "ranks.h"
#include <stdlib.h>

static const size_t sizes[] = { 0,    1,	7,     8,     63,    64,     65,	 1000,
				4096, 8192 + 1, 16384, 65536, 65537, 262144, 1048576 + 3 };

static size_t every = 1; /* which sizes threads take */

static void messages(struct rank *r, size_t step)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i += step) {
		pingpong(r, sizes[i]);
		crossing(r, sizes[i]);
		unexpected(r, sizes[i]);
	}
}

static void *thread_main(void *arg)
{
	struct rank *r = arg;

	messages(r, every);
	collectives(r, 5000);
	return NULL;
}

/* Each thread has a communicator of its own, made by all ranks in the same order. */
static void threads(struct rank *all, int count)
{
	struct rank *each = calloc((size_t)count, sizeof(*each));
	pthread_t *ids = calloc((size_t)count, sizeof(*ids));

	if (!each || !ids)
		die(all, "out of memory", 0);
	for (int i = 0; i < count; i++) {
		MPI_Comm comm;

		MPI_Comm_dup(all->comm, &comm);
		rank_init(&each[i], comm, (uint64_t)i + 1);
	}
	for (int i = 0; i < count; i++)
		if (pthread_create(&ids[i], NULL, thread_main, &each[i]))
			die(all, "pthread_create", (size_t)i);
	for (int i = 0; i < count; i++)
		pthread_join(ids[i], NULL);
	for (int i = 0; i < count; i++)
		rank_end(&each[i]);
	free(ids);
	free(each);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 4, level = 0;
	struct rank r;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	if (argc > 2 && atoi(argv[2]) > 0)
		every = (size_t)atoi(argv[2]);
	rank_init(&r, MPI_COMM_WORLD, 0);
	if (r.size < 2)
		die(&r, "ranks, but it takes two", (size_t)r.size);
	if (level < MPI_THREAD_MULTIPLE && count)
		die(&r, "is the level of threads", (size_t)level);
	messages(&r, 1);
	collectives(&r, 1);
	collectives(&r, 1000);
	collectives(&r, 100000);
	one_sided(&r, 1 << 18);
	threads(&r, count);
	MPI_Barrier(r.comm);
	if (!r.me)
		printf("%d ranks, %d threads each: every byte is right\n", r.size, count);
	MPI_Finalize();
	return 0;
}
