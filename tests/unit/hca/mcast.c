// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <sys/resource.h>
#include "fixture.h"
#include "hca/qp.h"
#include "util/quiesce.h"

static union ibv_gid group(unsigned int n)
{
	return (union ibv_gid){ .raw = { 0xff,
					 0x0e, [14] = (uint8_t)(n >> 8), [15] = (uint8_t)n } };
}

static struct qp ud(uint32_t qpn)
{
	return (struct qp){ .service = &services[SERVICE_UD], .qpn = qpn, .epoch = fork_epoch() };
}

struct sum {
	unsigned int n;
	uint64_t total;
};

static void add(void *arg, uint32_t qpn)
{
	struct sum *s = arg;

	s->n++;
	s->total += qpn;
}

static bool joined;

static struct sum members(struct mcast_table *t, union ibv_gid gid)
{
	struct sum s = { 0 };

	quiesce_enter();
	mcast_each(t, &gid, add, &s);
	quiesce_exit();
	return s;
}

TEST(each_member_is_called_once)
{
	struct fixture *f = fixture_open(8);
	struct mcast_table *t = f->hca.mcast;
	struct qp a = ud(0x100), b = ud(0x200);
	union ibv_gid g = group(1), other = group(2), first;

	check_eq(mcast_attach(t, &a, &g, &joined), 0);
	check(joined);
	check_eq(mcast_attach(t, &a, &g, &joined), 0);
	check(!joined);
	check_eq(mcast_attach(t, &b, &g, &joined), 0);
	check_eq(members(t, g).n, 2);
	check_eq(members(t, g).total, 0x300);
	check_eq(members(t, other).n, 0);
	check(mcast_attached(t, &a));
	check(mcast_group(t, 0, &first));
	check_mem(first.raw, g.raw, sizeof(g));
	check(!mcast_group(t, 1, &first));
	check_eq(mcast_detach(t, &a, &g), 0);
	check(!mcast_attached(t, &a));
	check_eq(members(t, g).total, 0x200);
	check_eq(mcast_detach(t, &a, &g), EINVAL);
	check_reason("QP 0x100 is not attached");
	check_eq(mcast_detach(t, &b, &other), EINVAL);
	check_eq(mcast_detach(t, &b, &g), 0);
	check_eq(members(t, g).n, 0);
	fixture_close(f);
}

TEST(only_ud_queues_and_multicast_gids)
{
	struct fixture *f = fixture_open(8);
	struct qp a = ud(1);
	union ibv_gid g = group(1), unicast = { .raw = { 0xfe, 0x80 } };
	union ibv_gid ipv4 = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };

	check_eq(mcast_attach(f->hca.mcast, &a, &unicast, &joined), EINVAL);
	check_reason("fe80:: is no group");
	check_eq(mcast_attach(f->hca.mcast, &a, &ipv4, &joined), 0);
	check_eq(members(f->hca.mcast, ipv4).n, 1);
	check_eq(mcast_detach(f->hca.mcast, &a, &ipv4), 0);
	ipv4.raw[12] = 223;
	check_eq(mcast_attach(f->hca.mcast, &a, &ipv4, &joined), EINVAL);
	check_reason("::ffff:223.1.2.3 is no group");
	ipv4.raw[12] = 240;
	check_eq(mcast_attach(f->hca.mcast, &a, &ipv4, &joined), EINVAL);
	ipv4.raw[12] = 239;
	ipv4.raw[9] = 1; /* not a mapped address */
	check_eq(mcast_attach(f->hca.mcast, &a, &ipv4, &joined), EINVAL);
	a.service = &services[SERVICE_RC];
	check_eq(mcast_attach(f->hca.mcast, &a, &g, &joined), EINVAL);
	check_reason("is RC");
	fixture_close(f);
}

TEST(groups_and_members_end_at_their_limits)
{
	struct fixture *f = fixture_open(8);
	struct mcast_table *t = f->hca.mcast;
	union ibv_gid g = group(0), last = group(LIMIT_MCAST_GRP);

	for (uint32_t i = 0; i < LIMIT_MCAST_QP_ATTACH; i++) {
		struct qp qp = ud(1 + i);

		check_eq(mcast_attach(t, &qp, &g, &joined), 0);
	}
	struct qp more = ud(1000);

	check_eq(mcast_attach(t, &more, &g, &joined), ENOMEM);
	check_reason("has 240 QPs");
	for (unsigned int i = 1; i < LIMIT_MCAST_GRP; i++) {
		g = group(i);
		check_eq(mcast_attach(t, &more, &g, &joined), 0);
	}
	check_eq(mcast_attach(t, &more, &last, &joined), ENOMEM);
	check_reason("all 256 groups");
	check_eq(mcast_detach(t, &more, &g), 0);
	check_eq(mcast_attach(t, &more, &last, &joined), 0);
	fixture_close(f);
}

/* A sanitizer's allocator ends the program instead, and would find a leak. What nobody keeps a
 * compiler need not allocate, and then there is no end of it. */
static void take_all_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	void *volatile taken;

	for (size_t n = 1 << 20; n >= 16; n /= 2)
		do
			taken = malloc(n);
		while (taken);
#endif
}

/* Who lets go needs no memory. */
TEST(detaching_without_memory)
{
	struct fixture *f = fixture_open(8);
	struct mcast_table *t = f->hca.mcast;
	struct rlimit before, none;
	struct qp a = ud(0x100), b = ud(0x200);
	union ibv_gid g = group(1);
	int first, second;

	check_eq(mcast_attach(t, &a, &g, &joined), 0);
	check_eq(mcast_attach(t, &b, &g, &joined), 0);
	getrlimit(RLIMIT_AS, &before);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	setrlimit(RLIMIT_AS, &none);
	take_all_memory();
	first = mcast_detach(t, &a, &g);
	second = mcast_detach(t, &b, &g);
	setrlimit(RLIMIT_AS, &before);
	check_eq(first, 0);
	check_eq(second, 0);
	check_eq(members(t, g).n, 0);
	fixture_close(f);
}

/* Their places are taken anew. */
TEST(members_come_and_go)
{
	struct fixture *f = fixture_open(8);
	struct mcast_table *t = f->hca.mcast;
	union ibv_gid g = group(1);
	struct qp stays = ud(1);

	check_eq(mcast_attach(t, &stays, &g, &joined), 0);
	for (uint32_t i = 0; i < 3 * LIMIT_MCAST_QP_ATTACH; i++) {
		struct qp qp = ud(2 + i);

		check_eq(mcast_attach(t, &qp, &g, &joined), 0);
		check_eq(members(t, g).total, 1 + 2 + i);
		check_eq(mcast_detach(t, &qp, &g), 0);
	}
	check_eq(members(t, g).n, 1);
	fixture_close(f);
}

RUN_TESTS(unit_test(each_member_is_called_once), unit_test(only_ud_queues_and_multicast_gids),
	  unit_test(groups_and_members_end_at_their_limits), unit_test(detaching_without_memory),
	  unit_test(members_come_and_go))
