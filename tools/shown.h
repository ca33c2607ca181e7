// SPDX-License-Identifier: MIT
/* All processes of this user on this host, with what each shows of itself (engine/show.h), copied
 * once and checked. */
#pragma once
#include "engine/show.h"
#include "link/number.h"
#include <sys/types.h>

struct shown {
	pid_t pid; /* 0: in a PID namespace that is not visible from here */
	unsigned int slot; /* the first that it has on the host; QP numbers carry it */
	char program[32];
	int err; /* 0; ETIMEDOUT, EPROTO, …: it shows nothing */
	uint64_t now; /* ns, of its clock */
	uint32_t count;
	struct show_qp *qp;
};

struct shown_list {
	unsigned int n;
	struct shown *at; /* ordered by pid */
	unsigned int layout; /* of a version whose processes cannot be asked; 0: there are none */
	pid_t owner[NUMBER_SLOTS]; /* of each slot; 0: nobody's, or not visible from here */
};

/* Asks all at once. ENOMEM, EPERM: as host_names_uid(). */
int shown_read(struct shown_list *out);
void shown_free(struct shown_list *l);

/* The process that handed out the number; 0: none of this list. */
pid_t shown_owner(const struct shown_list *l, uint32_t number);
/* Why a process shows nothing. */
const char *shown_why(int err);
/* "QP 0x812 of 1234", "QP 0x12 at 10.0.0.2", "-" */
const char *shown_peer(const struct shown_list *l, const struct show_qp *q, char *buf, size_t n);
/* What a QP waits for, in words; "-": nothing. */
const char *shown_wait(const struct show_qp *q, char *buf, size_t n);
