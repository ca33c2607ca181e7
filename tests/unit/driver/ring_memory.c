// SPDX-License-Identifier: MIT
/* Where rings come from: the heap, a mapping, or a parent domain's functions, to which they go
 * back. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include "driver/ring_memory.h"
#include "hca/pd.h"
#include "test.h"
#include "util/fork.h"

enum { PAGE = 4096, LARGE = 128 << 10 };

static struct {
	unsigned int allocs, frees;
	size_t size, align;
	uint64_t type;
	void *gives, *freed, *context;
} program;

static void *its_alloc(struct ibv_pd *pd, void *context, size_t size, size_t align, uint64_t type)
{
	(void)pd;
	program.allocs++;
	program.size = size;
	program.align = align;
	program.type = type;
	program.context = context;
	return program.gives;
}

static void its_free(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	(void)pd;
	check(context == &program);
	check_eq(type, program.type);
	program.frees++;
	program.freed = p;
}

static struct pd parent_domain(void)
{
	check_eq(fork_init(), 0);
	memset(&program, 0, sizeof(program));
	return (struct pd){
		.kind = PD_PARENT,
		.memory = { .alloc = its_alloc, .free = its_free, .pd_context = &program }
	};
}

TEST(rings_are_zeroed_and_aligned)
{
	check_eq(fork_init(), 0);
	for (size_t size = 16; size <= 1 << 20; size *= 2) {
		struct ring_memory m[2];

		for (int i = 0; i < 2; i++) {
			check_eq(ring_memory_alloc(size, &m[i]), 0);
			check_eq((uintptr_t)m[i].at % 64, 0);
			for (size_t k = 0; k < size; k++)
				check_eq(m[i].at[k], 0);
			memset(m[i].at, 0xff, size);
		}
		check(m[0].at + size <= m[1].at || m[1].at + size <= m[0].at);
		ring_memory_free(&m[0]);
		ring_memory_free(&m[0]); /* none any more */
		ring_memory_free(&m[1]);
	}
}

TEST(without_functions_a_domain_takes_the_heap)
{
	struct pd plain = { .kind = PD_PLAIN };
	struct ring_memory p;

	check_eq(fork_init(), 0);
	check_eq(ring_memory_alloc_in(NULL, MLX5DV_RES_TYPE_QP, 100, &p), 0);
	ring_memory_free(&p);
	check_eq(ring_memory_alloc_in(&plain, MLX5DV_RES_TYPE_QP, 100, &p), 0);
	ring_memory_free(&p);
}

TEST(a_parent_domain_s_functions_make_and_take_back_rings)
{
	static _Alignas(PAGE) uint8_t memory[LARGE];
	struct pd pd = parent_domain();
	unsigned int n = 0;
	struct ring_memory p;

	for (size_t size = 64; size <= LARGE; size *= 2) {
		memset(memory, 0xff, sizeof(memory));
		program.gives = memory;
		check_eq(ring_memory_alloc_in(&pd, MLX5DV_RES_TYPE_CQ, size, &p), 0);
		check(p.at == memory);
		check_eq(program.size, size <= PAGE ? PAGE : size);
		check_eq(program.align, PAGE);
		check_eq(program.type, MLX5DV_RES_TYPE_CQ);
		check(program.context == &program);
		for (size_t k = 0; k < size; k++)
			check_eq(p.at[k], 0);
		ring_memory_free(&p);
		check(program.freed == memory);
		check_eq(program.allocs, ++n);
		check_eq(program.frees, n);
	}
}

/* Each goes back where it came from, whichever is freed first. */
TEST(rings_of_both_origins_stand_side_by_side)
{
	static _Alignas(PAGE) uint8_t memory[PAGE];
	struct pd pd = parent_domain();
	struct ring_memory theirs, heap;

	program.gives = memory;
	check_eq(ring_memory_alloc_in(&pd, MLX5DV_RES_TYPE_SRQ, 100, &theirs), 0);
	check_eq(ring_memory_alloc(100, &heap), 0);
	ring_memory_free(&heap);
	check_eq(program.frees, 0);
	ring_memory_free(&theirs);
	check_eq(program.frees, 1);
}

/* A function that gives memory which is in use has it back, and the caller gets nothing to free. */
TEST(memory_that_cannot_be_noted_goes_back_and_to_nobody_else)
{
	static _Alignas(PAGE) uint8_t memory[PAGE];
	struct pd pd = parent_domain();
	struct ring_memory p, again = { 0 };

	program.gives = memory;
	check_eq(ring_memory_alloc_in(&pd, MLX5DV_RES_TYPE_CQ, 100, &p), 0);
	check_eq(ring_memory_alloc_in(&pd, MLX5DV_RES_TYPE_CQ, 100, &again), EEXIST);
	check(!again.at);
	check_eq(program.frees, 1);
	ring_memory_free(&p);
	check_eq(program.frees, 2);
}

TEST(functions_may_ask_for_the_default_or_refuse)
{
	static _Alignas(PAGE) uint8_t memory[2 * PAGE];
	struct pd pd = parent_domain();
	struct ring_memory p;

	program.gives = IBV_ALLOCATOR_USE_DEFAULT;
	check_eq(ring_memory_alloc_in(&pd, MLX5DV_RES_TYPE_QP, 100, &p), 0);
	ring_memory_free(&p);
	check_eq(program.frees, 0);
	program.gives = NULL;
	check_eq(ring_memory_alloc_in(&pd, MLX5DV_RES_TYPE_QP, 100, &p), ENOMEM);
	check_eq(program.frees, 0);
	program.gives = memory + 64; /* not aligned as asked: it goes back at once */
	check_eq(ring_memory_alloc_in(&pd, MLX5DV_RES_TYPE_QP, 100, &p), ENOMEM);
	check_eq(program.frees, 1);
	check(program.freed == memory + 64);
}

RUN_TESTS(unit_test(rings_are_zeroed_and_aligned),
	  unit_test(without_functions_a_domain_takes_the_heap),
	  unit_test(a_parent_domain_s_functions_make_and_take_back_rings),
	  unit_test(rings_of_both_origins_stand_side_by_side),
	  unit_test(memory_that_cannot_be_noted_goes_back_and_to_nobody_else),
	  unit_test(functions_may_ask_for_the_default_or_refuse))
