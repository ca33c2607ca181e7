// SPDX-License-Identifier: MIT
/* What the processes of one run share: the program, where each side is, what it tells the other
 * about its memory and its work, and a log of the last steps for the report. Memory that was mapped
 * before the processes were forked; words of it are atomics, the rest belongs to one side between
 * two phases. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "property/program.h"

enum { LOG_LINES = 4096, LOG_WIDTH = 120 };

enum lossy { LOSSY_UC, LOSSY_UD, LOSSY_FRAMES, LOSSY };
enum outcome { OUT_NONE, OUT_SUCCESS, OUT_UNKNOWN }; /* of an operation, at the other end */

struct address {
	uint32_t qpn, psn;
	uint8_t gid[16];
	uint64_t va;
	uint32_t rkey, read_only_rkey, fickle_rkey;
	uint32_t window[2]; /* keys of type 1, 2 */
	uint32_t target, srqn; /* XRC */
};

struct seat { /* a side as the others see it */
	_Atomic uint32_t phase; /* episode * PHASES + phase reached */
	_Atomic uint32_t sends_done; /* of which episode, plus one */
	uint32_t at; /* its episode; under lock */
	char waits[LOG_WIDTH]; /* for what, for the report; its own */
	struct address addr;
	uint8_t out[OPS];
	uint64_t word[OPS + 1]; /* what the peer's word may be after n atomics */
	uint16_t words, words_sure;
	uint16_t delivered; /* messages that the sender knows to have arrived */
};

struct board {
	struct program program;
	pthread_mutex_t lock; /* robust: guards at, next */
	struct seat seat[LINKS][SIDES];
	int domain; /* the file of the XRC domain */
	uint32_t next[LINKS]; /* the first episode that may begin */
	_Atomic uint32_t gone[PROCS]; /* deaths on purpose */
	_Atomic uint32_t ticks; /* something has gone on */
	_Atomic uint32_t due[LOSSY], came[LOSSY]; /* messages that may be lost */
	_Atomic uint32_t failed;
	char why[1024];
	_Atomic uint32_t lines;
	char log[LOG_LINES][LOG_WIDTH];
};

extern struct board *board;

void board_make(void); /* before anything else; once */
void board_clear(const struct program *p);
void board_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The first failure is kept; does not return. */
void board_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void board_tick(void);
void board_tail(unsigned int lines); /* prints */

/* Enters episode @from or a later one; EPISODES: it is over. *seen: the peer's deaths so far. */
uint32_t board_enter(unsigned int link, unsigned int side, uint32_t from, uint32_t *seen);
/* The process has been killed on purpose and is reaped: its links go on behind their episode. */
void board_died(unsigned int proc);
/* This side has reached the phase; waits for the other one. False: its process has died. */
bool board_meet(unsigned int link, unsigned int side, uint32_t phase, uint32_t seen);
bool board_peer_gone(unsigned int link, unsigned int side, uint32_t seen);
void board_nap(void);
