// SPDX-License-Identifier: MIT
/* Mistakes of work that both sides explain, each in a sentence of its own: the peer what it
 * checked, the poster what the peer has told, and what can be done. The two sides are processes of
 * one host or, when the program is given the network namespace of another, of two. */
#pragma once
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

/* What the responder says of a key of its own, at the end. */
#define MISTAKE_GIVE "; give the peer an rkey of this QP's PD that covers and allows it"

#define NEAR(...) said_want(SAID_NEAR, __VA_ARGS__)
#define FAR(...)  said_want(SAID_FAR, __VA_ARGS__)

struct mistake {
	struct duo duo;
	unsigned int near_qp, far_qp; /* numbers */
	unsigned long long va, far_va; /* each side's memory */
	unsigned int lkey, rkey;
	bool apart; /* on two hosts */
};

extern struct mistake mistake;

/* What main() returns. @argv: nothing, or the other host's network namespace (a path). */
int mistake_main(int argc, char **argv, const struct test_case *list, size_t n);
#define MISTAKES(argc, argv, list) mistake_main(argc, argv, list, sizeof(list) / sizeof((list)[0]))

/* Before mistake_begin(): neither side gets slot 0, in which numbers lie that nobody has given. */
void mistake_avoid_slot_0(void);
void mistake_begin(struct duo_opts o);
void mistake_begin_rc(void);
/* A host tells its reasons to hosts that have said that they understand them. They say so with
 * their packets until they have an answer: the first may come before the other host listens, and
 * one may overtake it. SENDs of RC until then, at least one. */
void mistake_meet(void);
/* Tries three times, with that timeout: quickly on one host; another host is asked whether it is
 * there, and has time to answer. */
void mistake_begin_impatient(enum ibv_qp_type type);
int mistake_timeout(void);
/* Posts the work request; its completion must have failed so. */
void mistake_fails(struct ibv_send_wr *wr, enum ibv_wc_status status);
struct ibv_send_wr mistake_write(uint32_t len, struct ibv_sge *sg);
/* Both have learned what the other's host can do: a WRITE has arrived. */
void mistake_acquaint(void);

/* A text that lives until the fourth next. */
char *mistake_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The far side refused an operation of @len bytes to @to, for @what. */
void mistake_far_says(const char *operation, unsigned int len, unsigned long long to,
		      const char *what);
/* The near side says the same, in the far side's words. */
void mistake_refused(const char *operation, struct ibv_send_wr *wr, unsigned int vendor,
		     const char *words);
/* No answer came to a WRITE of 64 B. */
void mistake_silent(const char *why);
