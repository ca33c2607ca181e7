// SPDX-License-Identifier: MIT
/* A process of the host under test: a struct host with a small table of keys and somebody who
 * counts, checks and keeps what arrives. All progress is made by station_turn(), which a test
 * calls in its loops, or by a thread of its own. */
#pragma once
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/types.h>
#include "peers/host.h"
#include "peers/contact_trust.h"
#include "test.h"

enum { STATION_KEYS = 64 };

struct station_key { /* the table's entry; key 0: free */
	uint32_t key, pdn, access, direct;
	uint64_t iova, len, addr, gen;
};

struct station {
	struct host *h;
	uint32_t slot;
	void (*got)(struct station *st, const struct seg *s); /* NULL: only counted */
	void *arg;
	uint64_t count, bytes;
	uint32_t deaths, dead_slot;
	uint64_t turns, ahead; /* ahead: ns by which its clock is before the others' */
	unsigned int slow; /* its clock takes so many times as long, 0: once; deadlines come late */
	pthread_t thread;
	bool threaded, stop;
};

void station_open(struct station *st);
void station_close(struct station *st);
void station_turn(struct station *st); /* drain, control when due */
void station_thread(struct station *st); /* turns by a thread from now on, until station_stop() */
void station_stop(struct station *st); /* as station_close() does */
uint32_t station_number(const struct station *st); /* a QPN of ours */
/* Registers; index 1..63. Returns the key. */
uint32_t station_key(struct station *st, unsigned int index, void *addr, size_t len);
/* Behind the next look at a key, also one of another process, that thread calls @f once. */
void station_behind_look(void (*f)(void *arg), void *arg);
void station_unkey(struct station *st, unsigned int index); /* unpublished, not revoked */
struct dest *station_dest(struct station *st, uint32_t qpn);
/* Sends, turning while the link is full or not up; returns the final result. */
int station_send(struct station *st, struct dest *d, const struct seg *s);
/* Turns until *@value, which deliveries change, is at least @least. */
void station_until(struct station *st, const uint64_t *value, uint64_t least);
/* Turns until @d's process and this one may access each other's memory. */
void station_mutual(struct station *st, struct dest *d);

/* Sets a hazard on the key of @d's process, as an access does, and leaves it. */
void station_hold(struct station *st, struct dest *d, uint32_t key);

/* This process may have @n descriptors from here on. What strangers may have of them then. */
struct trust_limits station_limits(unsigned int n);
uint64_t station_descriptors(void); /* how many it has, and a few more, always the same */

/* A child process that runs @f(its end of the socket, @arg) and exits with what f returns. */
struct child {
	pid_t pid;
	int talk; /* SOCK_SEQPACKET */
};
struct child child_start(int (*f)(int talk, void *arg), void *arg);
int child_wait(struct child *c); /* its exit status, or 128 + signal */
void child_tell(int talk, uint64_t v);
uint64_t child_hear(int talk); /* UINT64_MAX: the other end is gone */
