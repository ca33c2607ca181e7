// SPDX-License-Identifier: MIT
/* One rank, or one thread of it, and the tests in which all of a communicator take part. */
#pragma once
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#define ROOM ((1 << 20) + 128) /* the largest message and a margin that must stay untouched */

struct rank {
	MPI_Comm comm;
	int me, size, peer; /* peer: the rank it exchanges messages with, or itself */
	uint64_t seed; /* equal on all ranks; what each message is made of, with its number */
	uint8_t *out, *in, *in2; /* ROOM bytes each */
};

void rank_init(struct rank *r, MPI_Comm comm, uint64_t seed);
void rank_end(struct rank *r);
_Noreturn void die(const struct rank *r, const char *what, size_t where);

/* The bytes of message @number of rank @from, and the look at them: all of them are right, and
 * the margin behind is as clear() left it. */
void fill(const struct rank *r, uint8_t *buf, size_t len, int from, uint64_t number);
void clear(uint8_t *buf);
void check(const struct rank *r, const uint8_t *buf, size_t len, int from, uint64_t number);

void pingpong(struct rank *r, size_t len);
void crossing(struct rank *r, size_t len); /* a window of messages, both ways at once */
void unexpected(struct rank *r, size_t len); /* messages come before their receives */
void collectives(struct rank *r, int count); /* of so many numbers */
void one_sided(struct rank *r, size_t len);
