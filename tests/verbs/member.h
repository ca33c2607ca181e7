// SPDX-License-Identifier: MIT
/* Members of an XRC domain: processes that share the domain of one file and do what they are told,
 * one order after the other; between orders each receives what comes to its SRQ. A message carries
 * its number in its stream, so a member knows whether all came, once, in order. */
#pragma once
#include "verbs/peer.h"

enum member_op {
	MEMBER_OPEN, /* the domain: oflags @a; answers err */
	MEMBER_SRQ, /* makes an SRQ and posts receives; answers value: its number, key, va */
	MEMBER_STRANGER, /* the same in a domain of its own, without receives */
	MEMBER_TARGET, /* makes a target QP; answers value: its number */
	MEMBER_TAKE, /* opens target QP @a as type @b; answers err */
	MEMBER_CLOSE, /* ibv_destroy_qp on its handle; answers err */
	MEMBER_JOIN, /* its target QP through RESET to RTS towards QP @a */
	MEMBER_STATE, /* answers value: the target QP's state as ibv_query_qp says */
	MEMBER_SENDER, /* makes an XRC_SEND QP; answers value: its number */
	MEMBER_REACH, /* its XRC_SEND QP through RESET to RTS towards QP @a, with @b retries */
	MEMBER_LABEL, /* gives its XRC_SEND QP the flow label @a, in SQD */
	/* sends @n messages of stream @b to SRQ @a; answers value: how many went well, status: of
	 * the first that did not */
	MEMBER_STREAM,
	MEMBER_ALTERNATE, /* the same, by threes to SRQ @a, and to SRQ @key as stream @b + 1 */
	MEMBER_OP, /* opcode @b on SRQ @a with @key, @va; answers status */
	MEMBER_COUNT, /* waits for @n messages of stream @b; answers value: how many came */
	MEMBER_LEAVE, /* exits at once, destroying nothing */
};

struct member_order {
	enum member_op op;
	uint32_t a, b, n, key;
	uint64_t va;
	union ibv_gid to; /* JOIN, REACH: where the peer is; none: on this host */
};

struct member_answer {
	int err;
	uint32_t value, key;
	enum ibv_wc_status status;
	uint64_t va, word; /* of MEMBER_OP: what came back */
	union ibv_gid gid; /* its own */
};

struct member {
	pid_t pid;
	int fd;
};

/* @file: whose domain it is; opened by the caller, inherited. */
void member_start(struct member *m, int file);
/* In the network namespace @netns (a path), where it is no member: it sends from another host. */
void member_start_at(struct member *m, const char *netns);
void member_tell(struct member *m, const struct member_order *o); /* and does not wait */
struct member_answer member_hear(struct member *m);
struct member_answer member_do(struct member *m, const struct member_order *o);
void member_kill(struct member *m);
#define MEMBER_DO(m, ...) member_do((m), &(struct member_order){ __VA_ARGS__ })
