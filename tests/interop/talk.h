// SPDX-License-Identifier: MIT
/* One case of work between two devices, on any libibverbs: the side with an address asks, the
 * other serves, and each looks at every byte and status that is its own. TCP carries what they must
 * know of each other, and keeps step. A wrong step prints what it is and exits 1. */
#pragma once
#include "verbs/peer.h"

enum {
	TALK_SLOT = 64 << 10,
	TALK_SLOTS = 16,
	/* The parts of a side's memory, each of TALK_SLOTS slots. */
	TALK_RECV = 0,
	TALK_SOURCE = 1 << 20,
	TALK_TARGET = 2 << 20,
	TALK_BACK = 3 << 20,
	TALK_BYTES = 4 << 20,
	TALK_SIZES = 13,
};

struct talk {
	bool asks;
	int fd;
	struct peer_dev dev;
	struct peer_opts o;
	struct peer_ep ep;
	uint8_t *mem;
	struct ibv_mr *mr;
	size_t mtu;
	size_t sizes[TALK_SIZES]; /* of messages: around the bounds of words and packets */
	bool is_rxe; /* this side's device, and not the other's */
};

/* A QP on each side, connected; t->ep.theirs has the other side's memory. */
void talk_connect(struct talk *t);
void talk_connect_ep(struct talk *t, struct peer_ep *ep);
void talk_end(struct talk *t);

/* A request to the other side's memory at @to. */
struct ibv_send_wr talk_rdma(const struct talk *t, enum ibv_wr_opcode opcode, size_t to);
void talk_post(struct talk *t, struct ibv_send_wr wr, size_t at, size_t len);
struct ibv_wc talk_wc(struct talk *t);
/* Posts it and returns how it ended. */
enum ibv_wc_status talk_do(struct talk *t, struct ibv_send_wr wr, size_t at, size_t len);
void talk_ok(struct talk *t, struct ibv_send_wr wr, size_t at, size_t len);

void talk_recv(struct talk *t, unsigned int slot, size_t len);
struct ibv_wc talk_received(struct talk *t); /* one, successful */
void talk_check(const struct talk *t, size_t at, size_t len, uint64_t seed);
void talk_same(const char *what, uint64_t got, uint64_t want);

struct talk_case {
	const char *name;
	enum ibv_qp_type type;
	void (*ask)(struct talk *t);
	void (*serve)(struct talk *t);
};

extern const struct talk_case talk_data[], talk_ud[], talk_ends[]; /* up to one without a name */
