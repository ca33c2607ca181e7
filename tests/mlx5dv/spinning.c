// SPDX-License-Identifier: MIT
/* The engine thread on a core of its own: while there is work stores are plain ones, which it finds
 * by looking, and afterwards each one is a call again. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "mlx5dv/hand.h"
#include "verbs/said.h"

enum { MANY = 20000, LATEST = 10000 /* ms */ };

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* May the program store into the doorbell page? */
static bool page_is_open(void)
{
	uintptr_t page = (uintptr_t)a.qp.bf.reg, from, to;
	FILE *maps = fopen("/proc/self/maps", "re");
	bool open = false, found = false;
	char line[256], rights[8];

	want(maps);
	while (!found && fgets(line, sizeof(line), maps)) {
		found = sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && page >= from &&
			page < to;
		open = found && rights[1] == 'w';
	}
	fclose(maps);
	want(found);
	return open;
}

static void until_open(void)
{
	uint64_t end = now_ms() + LATEST;

	while (!page_is_open()) {
		hand_messages(10);
		want(now_ms() < end);
	}
}

static void until_closed(void)
{
	uint64_t end = now_ms() + LATEST;

	while (page_is_open())
		want(now_ms() < end);
}

static void begin(const char *how, enum ibv_qp_type type)
{
	setenv("SOFTHCA_DOORBELL", how, 1);
	open_memory();
	connected(type, NULL);
}

/* Work, rest, and work again. The first store behind a rest is one that rings. */
static void comes_and_goes(int type)
{
	begin("spin", (enum ibv_qp_type)type);
	for (unsigned int i = 0; i < 3; i++) {
		until_open();
		hand_messages(MANY);
		until_closed();
	}
	hand_messages(1);
}

/* An object that is destroyed while the engine looks at all of them. */
static void objects_come_and_go(int arg)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct mlx5dv_qp out;
	struct mlx5dv_obj obj = { .qp = { .out = &out } };

	(void)arg;
	begin("spin", IBV_QPT_RC);
	attr.send_cq = attr.recv_cq = a.ep.scq;
	for (unsigned int i = 0; i < 200; i++) {
		struct ibv_qp *qp = ibv_create_qp(dev.pd, &attr);

		want(qp);
		out = (struct mlx5dv_qp){ 0 };
		obj.qp.in = qp;
		want_eq(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
		hand_messages(20);
		want_eq(ibv_destroy_qp(qp), 0);
	}
}

/* A program that polls by the call as well: its thread makes progress then. */
static void beside_polls(int arg)
{
	struct ibv_cq *other;
	struct ibv_wc wc;

	(void)arg;
	begin("spin", IBV_QPT_RC);
	other = ibv_create_cq(dev.ctx, 1, NULL, NULL, 0);
	want(other);
	for (unsigned int i = 0; i < 2000; i++) {
		want_eq(ibv_poll_cq(other, 1, &wc), 0);
		hand_messages(1);
	}
}

/* Arms are in records as well: an event comes although no store is a call. */
static void arms(int arg)
{
	struct ibv_cq *cq;
	void *context;

	(void)arg;
	begin("spin", IBV_QPT_RC);
	until_open();
	for (uint32_t i = 0; i < 500; i++) {
		hand_recv(&b);
		record(&b.cq.dbrec[1], b.polled & 0xffffff);
		*(volatile uint64_t *)((uint8_t *)b.cq.cq_uar + 0x20) =
			(uint64_t)htobe32(b.cq.cqn) << 32 | htobe32(b.polled & 0xffffff);
		hand_send(&a, MLX5_WQE_CTRL_CQ_UPDATE, i);
		want_eq(ibv_get_cq_event(b.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		received_ok(&b, LEN, i);
		take(&a);
	}
}

/* Nobody has asked for it, but there is a core for each of the two threads. */
static void on_a_core_that_is_free(int arg)
{
	cpu_set_t all;

	(void)arg;
	want_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	if (CPU_COUNT(&all) < 2)
		case_skip("one CPU");
	begin("", IBV_QPT_RC);
	until_open();
	until_closed();
}

/* Where the program and the engine thread share a core each store is a call, however much there
 * is to do. */
static void not_on_one_core(int arg)
{
	cpu_set_t one;

	(void)arg;
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	want_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	begin("", IBV_QPT_RC);
	for (unsigned int i = 0; i < 200; i++) {
		hand_messages(20);
		want(!page_is_open());
	}
}

static void not_if_told_so(int arg)
{
	(void)arg;
	begin("trap", IBV_QPT_RC);
	for (unsigned int i = 0; i < 200; i++) {
		hand_messages(20);
		want(!page_is_open());
	}
}

static const struct test_case cases[] = {
	CASE_ARG(comes_and_goes, IBV_QPT_RC),
	CASE_ARG(comes_and_goes, IBV_QPT_UC),
	CASE(objects_come_and_go),
	CASE(beside_polls),
	CASE(arms),
	CASE(on_a_core_that_is_free),
	CASE(not_on_one_core),
	CASE(not_if_told_so),
};

int main(void)
{
	return CASES_RUN(cases);
}
