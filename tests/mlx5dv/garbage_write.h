// SPDX-License-Identifier: MIT
/* What a program writes into rings, records and doorbell pages that has lost its mind, but not all
 * of its knowledge: some of it is right, some half right, some anything. By a seed. */
#pragma once
#include "mlx5dv/hand.h"

/* Random numbers of this program's one seed; by one thread. */
void dice_begin(uint64_t seed);
uint64_t dice(void);
uint32_t dice_below(uint32_t n);
bool one_in(uint32_t n);

/* Memory that garbage aims at, with a key. Most of it is forbidden. */
struct aim {
	uint64_t va, len;
	uint32_t key;
};

enum { AIMS = 24, NUMBERS = 24 };

/* What garbage knows. The first aim of each list is the one that is right. */
extern struct garbage {
	enum ibv_qp_type type; /* IBV_QPT_DRIVER: DC */
	struct aim local[AIMS], remote[AIMS];
	unsigned int n_local, n_remote;
	uint32_t number[NUMBERS]; /* of queue pairs and CQs: its own, others', dead ones' */
	unsigned int n_numbers;
	struct mlx5_wqe_av av; /* UD, DC: without a number and a key */
	uint32_t to; /* UD, DC: the number that is right */
	uint32_t mkey;
} garbage;

enum { QKEY = 0x11111111, ACCESS_KEY = 0x1234567 };

/* A ring that the device may only read, and what it should contain. */
struct paper {
	uint8_t *at, *copy;
	size_t len;
};

void paper_of(struct paper *p, void *at, size_t len); /* an empty one has len 0 */
void paper_want_same(struct paper *p, const char *what); /* and forgets the copy */
void paper_write(struct paper *p, size_t at, const void *what, size_t len); /* around its end */
void paper_flip(struct paper *p); /* a bit anywhere */

/* A WQE at the next place of @h's send queue; the control segment, for the doorbell. @bad: it may
 * be wrong in any way. */
const void *garbage_wqe(struct hand *h, struct paper *sq, bool bad);
/* One that has only to complete. */
const void *garbage_nop(struct hand *h, struct paper *sq);
/* A receive of @stride bytes at @slot. @head: bytes before its list. */
void garbage_receive(struct paper *rq, uint32_t slot, uint32_t stride, uint32_t head, bool bad);
/* @was, or a little or a lot beside it. */
uint32_t garbage_index(uint32_t was, uint32_t entries);
void garbage_store(volatile uint8_t *page); /* to a doorbell page */
