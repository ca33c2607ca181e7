// SPDX-License-Identifier: MIT
#include "property/board.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "verbs/peer.h"

struct board *board;

void board_make(void)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED)
		die("mmap");
}

void board_clear(const struct program *p)
{
	pthread_mutexattr_t a;

	memset(board, 0, sizeof(*board));
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&board->lock, &a);
	pthread_mutexattr_destroy(&a);
	board->program = *p;
}

static void lock(void)
{
	if (pthread_mutex_lock(&board->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&board->lock);
}

void board_log(const char *fmt, ...)
{
	uint32_t i = atomic_fetch_add(&board->lines, 1) % LOG_LINES;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(board->log[i], LOG_WIDTH, fmt, ap);
	va_end(ap);
	board_tick();
}

void board_fail(const char *fmt, ...)
{
	va_list ap;

	if (!atomic_exchange(&board->failed, 1)) {
		va_start(ap, fmt);
		vsnprintf(board->why, sizeof(board->why), fmt, ap);
		va_end(ap);
		atomic_store(&board->failed, 2);
	}
	_exit(1);
}

void board_tick(void)
{
	atomic_fetch_add_explicit(&board->ticks, 1, memory_order_relaxed);
}

void board_tail(unsigned int lines)
{
	uint32_t n = atomic_load(&board->lines), first = n > lines ? n - lines : 0;

	for (uint32_t i = first; i < n; i++)
		printf("#   %s\n", board->log[i % LOG_LINES]);
}

static unsigned int proc_of(unsigned int link, unsigned int side)
{
	return board->program.link[link].proc[side];
}

uint32_t board_enter(unsigned int link, unsigned int side, uint32_t from, uint32_t *seen)
{
	uint32_t at;

	lock();
	at = from > board->next[link] ? from : board->next[link];
	board->seat[link][side].at = at;
	*seen = atomic_load(&board->gone[proc_of(link, !side)]);
	pthread_mutex_unlock(&board->lock);
	return at < EPISODES ? at : EPISODES;
}

void board_died(unsigned int proc)
{
	lock();
	for (unsigned int l = 0; l < board->program.links; l++) {
		const struct seat *s = board->seat[l];
		uint32_t last = s[0].at > s[1].at ? s[0].at : s[1].at;

		if (proc_of(l, 0) == proc || proc_of(l, 1) == proc)
			board->next[l] = last + 1;
	}
	atomic_fetch_add(&board->gone[proc], 1);
	pthread_mutex_unlock(&board->lock);
	board_log("process %u was killed", proc);
}

bool board_peer_gone(unsigned int link, unsigned int side, uint32_t seen)
{
	return atomic_load(&board->gone[proc_of(link, !side)]) != seen;
}

void board_nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

bool board_meet(unsigned int link, unsigned int side, uint32_t phase, uint32_t seen)
{
	struct seat *s = board->seat[link];

	atomic_store(&s[side].phase, phase);
	board_tick();
	while (atomic_load(&s[!side].phase) < phase && !board_peer_gone(link, side, seen))
		board_nap();
	return !board_peer_gone(link, side, seen); /* the phase may be its successor's */
}
