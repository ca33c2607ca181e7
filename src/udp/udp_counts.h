// SPDX-License-Identifier: MIT
/* What the link to the network has done. The counts of a process are in a memfd of its own, where
 * `softhca counters PID` finds them; without a memfd they are counted all the same. Any thread
 * adds, by relaxed atomics. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

/* X(name, what it counts) */
/* clang-format off */
#define UDP_COUNTS(X) \
	X(sent,			"packets sent") \
	X(unsent,		"packets that the kernel refused to send") \
	X(trains,		"trains: packets sent as one") \
	X(received,		"packets received and delivered") \
	X(bad_icrc,		"packets dropped: their ICRC is wrong") \
	X(malformed,		"packets dropped: not RoCEv2, or not for this socket") \
	X(questions_sent,	"questions to peers what they are able to") \
	X(questions_received,	"such questions of peers, answered") \
	X(answers_received,	"answers of peers")
/* clang-format on */

struct udp_counts {
#define X(name, what) uint64_t name;
	UDP_COUNTS(X)
#undef X
};

/* *@fd: the descriptor by which they are found. Positive errno. */
int udp_counts_make(struct udp_counts **out, int *fd);
void udp_counts_free(struct udp_counts *c); /* NULL is fine */
void udp_counts_read(const struct udp_counts *from, struct udp_counts *out);
/* Those of a process. ESRCH: there is none; ENOENT: it has no link to the network; EACCES: it is
 * another user's. */
int udp_counts_of(pid_t pid, struct udp_counts *out);
