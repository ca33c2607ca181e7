// SPDX-License-Identifier: MIT
/* Reasons: one sentence for every refused call and every failed completion, recorded by the
 * function that decides the error; callers pass the error on silently. The last 1024 records of the
 * process are kept in a ring that is written without locks from any thread; a reader that is
 * overtaken by writers is told so. SOFTHCA_EXPLAIN=1 (read once) prints each sentence as
 * "softhca: program[pid]: <text>\n" on stderr by one write(2); a value with a '/' names a file to
 * append to. Identical sentences in a row from one thread share one record and are printed once;
 * the number of repetitions is printed before the thread's next different sentence. Allocates
 * nothing, keeps errno.
 *
 * Where SOFTHCA_EXPLAIN is not set, exit() of a process that has recorded reasons prints how many,
 * and the name of the variable: one line on stderr, if that is a terminal or CI is set.
 *
 * A sentence names the call, the object, the numbers compared and the remedy, in this order:
 *
 *	return refuse(EINVAL, "ibv_modify_qp: QP 0x%x RESET to RTR: not a move of the state "
 *		      "diagram; move it to INIT first", qpn);
 *	cqe->reason = reason("RDMA WRITE of %u B to 0x%lx refused by QP 0x%x: rkey 0x%x covers "
 *			     "0x%lx+%lu, the range exceeds it by %lu; register more or write less",
 *			     len, va, qpn, rkey, base, size, over);
 *
 * Numbers of objects, keys and addresses are hexadecimal, sizes decimal with "B". No final stop,
 * no newline. A secret (a key the caller did not name, memory contents) never appears. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPLAIN_TEXT = 320, EXPLAIN_RECORDS = 1024 }; /* bytes with the final 0; records kept */

/* Records why a call is refused; returns @err, a positive errno. */
int refuse(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for a work request that is refused when it is posted: its number is put behind the call,
 * before the first colon ("ibv_post_send (wr_id 0x7): ..."), if it is not 0. Refusals in a row that
 * differ in that number alone are repetitions of the first. */
int refuse_work(int err, uint64_t wr_id, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The refusal of @call for want of @bytes of memory; returns ENOMEM. */
int refuse_memory(const char *call, size_t bytes);

/* Records why a completion fails, or why a packet is refused; returns the record's id, never 0. */
uint64_t reason(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* An event that may happen again and again is explained the first, 10th, 100th, 1000th time, with
 * its count @n. */
static inline bool explain_due(uint64_t n)
{
	while (n && n % 10 == 0)
		n /= 10;
	return n == 1;
}

/* The text of record @id into @buf, cut at @n bytes with the final 0.
 * ENOENT: there is no such record, or newer ones have taken its place. */
int explain_text(uint64_t id, char *buf, size_t n);

/* The last reason of this thread. ENOENT: it has recorded none, or newer records took its place. */
int explain_last(char *buf, size_t n);

/* How many reasons this thread has recorded, repetitions included. */
uint64_t explain_count(void);

uint64_t explain_last_id(void); /* 0 when this thread has recorded nothing */

/* Where sentences go from now on, by a value as of SOFTHCA_EXPLAIN; NULL or "0": nowhere. */
void explain_set_output(const char *value);
