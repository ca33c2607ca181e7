// SPDX-License-Identifier: MIT
/* A message's part [skip, skip + len) as pieces of memory, each checked under its own key. */
#include "pair.h"
#include "transport/gather.h"

enum { SGES = 4, TOTAL = 10 + 0 + 300 + 7 };

static struct sge list[SGES];

static void make(const struct rig_qp *p)
{
	list[0] = rig_sge(p, 100, 10);
	list[1] = rig_sge(p, 200, 0);
	list[2] = rig_sge(p, 1000, 300);
	list[3] = rig_sge(p, 5000, 7);
}

static struct gather_ask ask_for(const struct rig_qp *p, uint64_t skip, uint64_t len)
{
	return (struct gather_ask){ list, SGES, skip, len, p->pd->pdn, 0 };
}

/* The address in this process of the message's byte @i */
static uint64_t address(const struct rig_qp *p, uint64_t i)
{
	if (i < 10)
		return (uintptr_t)p->mem + 100 + i;
	return (uintptr_t)p->mem + (i < 310 ? 1000 + i - 10 : 5000 + i - 310);
}

TEST(any_part_of_a_list_is_found)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct gather g;

	make(p->a);
	for (uint64_t skip = 0; skip <= TOTAL; skip++) {
		for (uint64_t len = 0; skip + len <= TOTAL; len += len < 12 ? 1 : 37) {
			struct gather_ask ask = ask_for(p->a, skip, len);
			uint64_t at = skip;

			check(gather(p->rig.hca.keys, &ask, &g));
			for (unsigned int i = 0; i < g.n; at += g.piece[i++].len) {
				check_ne(g.piece[i].len, 0);
				check_eq(g.piece[i].addr, address(p->a, at));
				check_eq(g.piece[i].addr + g.piece[i].len - 1,
					 address(p->a, at + g.piece[i].len - 1));
			}
			check_eq(at, skip + len);
		}
	}
	pair_close(p);
}

TEST(only_the_keys_of_what_is_asked_for_are_checked)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	struct gather_ask ask;
	struct gather g;

	make(p->a);
	list[2].key ^= 1;
	ask = ask_for(p->a, 0, 10);
	check(gather(p->rig.hca.keys, &ask, &g));
	ask = ask_for(p->a, 310, 7);
	check(gather(p->rig.hca.keys, &ask, &g));
	ask = ask_for(p->a, 0, 11);
	check(!gather(p->rig.hca.keys, &ask, &g));
	check_eq(g.why, KEY_UNKNOWN);
	check_eq(g.which, 2);
	check_eq(g.refused.va, list[2].addr);
	check_eq(g.refused.len, 1);
	pair_close(p);
}

/* A key of 0 is not the mark of inline data: a program may write it into a data segment. */
TEST(inline_data_among_the_list_needs_no_key)
{
	struct pair *p = pair_open(&pair_lossy, &rig_rc);
	static const char data[] = "abcdefgh";
	struct gather_ask ask;
	struct gather g;

	make(p->a);
	list[0] = (struct sge){ (uintptr_t)data, 3, 0 };
	list[2] = (struct sge){ (uintptr_t)data + 3, 5, 0 };
	ask = ask_for(p->a, 1, 14);
	ask.inlined = 1 << 0 | 1 << 2;
	check(gather(p->rig.hca.keys, &ask, &g));
	check_eq(g.n, 3);
	check_eq(g.piece[0].addr, (uintptr_t)data + 1);
	check_eq(g.piece[0].len, 2);
	check_eq(g.piece[1].addr, (uintptr_t)data + 3);
	check_eq(g.piece[1].len, 5);
	check(!g.piece[0].key && !g.piece[1].key && g.piece[2].key);
	check_eq(g.piece[2].addr, (uintptr_t)p->a->mem + 5000);
	list[3].key = 0;
	check(!gather(p->rig.hca.keys, &ask, &g));
	check_eq(g.which, 1); /* of the entries that have a key */
	ask.inlined = 1 << 0;
	check(!gather(p->rig.hca.keys, &ask, &g));
	check_eq(g.why, KEY_UNKNOWN);
	check_eq(g.which, 1);
	pair_close(p);
}

RUN_TESTS(unit_test(any_part_of_a_list_is_found),
	  unit_test(only_the_keys_of_what_is_asked_for_are_checked),
	  unit_test(inline_data_among_the_list_needs_no_key))
