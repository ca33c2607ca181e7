// SPDX-License-Identifier: MIT
#include "fixture.h"
#include "hca/ah.h"

static const struct ibv_ah_attr good = {
	.is_global = 1,
	.port_num = 1,
	.grh = { .dgid.raw = { 0xfe, 0x80 }, .sgid_index = 3, .hop_limit = 64, .traffic_class = 5 },
	.sl = 3,
};

TEST(an_ah_keeps_its_vector)
{
	struct fixture *f = fixture_open(8);
	struct ah *ah;

	check_eq(ah_create(f->pd, &good, &ah), 0);
	check(ah->ib.context == &f->ctx->ib.context);
	check(ah->ib.pd == &f->pd->ib);
	check_mem(&ah->av.dgid, &good.grh.dgid, 16);
	check_eq(ah->av.sgid_index, 3);
	check_eq(ah->av.hop_limit, 64);
	check_eq(ah->av.sl, 3);
	check_eq(pd_destroy(f->pd), EBUSY);
	check_eq(ah_destroy(ah), 0);
	check_eq(f->hca.count.ah, 0);
	fixture_close(f);
}

/* The source port is the flow label's, where there is one; else the link chooses it. */
TEST(a_flow_label_names_the_source_port)
{
	struct fixture *f = fixture_open(8);
	struct ibv_ah_attr a = good;
	struct ah *ah;

	check_eq(ah_create(f->pd, &a, &ah), 0);
	check_eq(ah->wire.rlid, 0);
	check_eq(ah_destroy(ah), 0);
	a.grh.flow_label = 0xabcde;
	check_eq(ah_create(f->pd, &a, &ah), 0);
	check_eq(be16toh(ah->wire.rlid), 0xc000 | (0x3cde ^ 0x2a));
	check_eq(ah_destroy(ah), 0);
	fixture_close(f);
}

static int create(struct fixture *f, const struct ibv_ah_attr *attr, const char *word)
{
	struct ah *ah;
	int err = ah_create(f->pd, attr, &ah);

	check_reason(word);
	return err;
}

TEST(bad_vectors_are_refused_with_the_member_named)
{
	struct fixture *f = fixture_open(8);
	struct ibv_ah_attr a = good;

	a.port_num = 2;
	check_eq(create(f, &a, "port_num is 2"), EINVAL);
	a = good;
	a.is_global = 0;
	check_eq(create(f, &a, "no GRH"), EINVAL);
	a = good;
	a.grh.sgid_index = FIXTURE_GIDS;
	check_eq(create(f, &a, "sgid_index 4 is an empty entry"), EINVAL);
	a.grh.sgid_index = LIMIT_GIDS;
	check_eq(create(f, &a, "sgid_index 16 is outside"), EINVAL);
	a = good;
	memset(&a.grh.dgid, 0, sizeof(a.grh.dgid));
	check_eq(create(f, &a, "dgid is ::"), EINVAL);
	a = good;
	a.sl = 16;
	check_eq(create(f, &a, "sl is 16"), EINVAL);
	check_eq(f->hca.count.ah, 0);
	fixture_close(f);
}

TEST(max_ah_handles_can_be_made_and_not_one_more)
{
	struct fixture *f = fixture_open(8);
	struct ah **ah = calloc(LIMIT_AH, sizeof(*ah)), *more;

	for (int i = 0; i < LIMIT_AH; i++)
		check_eq(ah_create(f->pd, &good, &ah[i]), 0);
	check_eq(ah_create(f->pd, &good, &more), ENOMEM);
	for (int i = 0; i < LIMIT_AH; i++)
		check_eq(ah_destroy(ah[i]), 0);
	free(ah);
	fixture_close(f);
}

RUN_TESTS(unit_test(an_ah_keeps_its_vector), unit_test(a_flow_label_names_the_source_port),
	  unit_test(bad_vectors_are_refused_with_the_member_named),
	  unit_test(max_ah_handles_can_be_made_and_not_one_more))
