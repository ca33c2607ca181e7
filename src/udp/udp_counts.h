// SPDX-License-Identifier: MIT
/* Counters of the link to the network. Those of a process are in a memfd, where `softhca counters
 * PID` finds them; a tool with other counters does not. Without a memfd the process counts all the
 * same. Any thread adds, by relaxed atomics. */
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
	X(questions_sent,	"hellos sent: questions what a host is able to do") \
	X(questions_received,	"hellos of other hosts, answered") \
	X(answers_received,	"answers to hellos, received")
/* clang-format on */

struct udp_counts {
#define X(name, what) uint64_t name;
	UDP_COUNTS(X)
#undef X
};

/* *@fd: the memfd, by which the tool finds them. 0 or a positive errno. */
int udp_counts_make(struct udp_counts **out, int *fd);
void udp_counts_free(struct udp_counts *c); /* NULL is fine */
void udp_counts_read(const struct udp_counts *from, struct udp_counts *out);
/* The counters of process @pid. ESRCH: no such process; ENOENT: it has no link to the network;
 * EACCES: it is another user's. */
int udp_counts_of(pid_t pid, struct udp_counts *out);
