// SPDX-License-Identifier: MIT
#include "fixture.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hca/numbers.h"

TEST(the_device_is_what_programs_expect)
{
	struct fixture *f = fixture_open(8);
	struct ibv_device_attr a;

	device_query(&f->hca, &a);
	check_str(a.fw_ver, "softhca-" SOFTHCA_VERSION);
	check_eq(a.node_guid, f->hca.node_guid);
	check_eq(a.sys_image_guid, f->hca.node_guid);
	check_eq(a.vendor_id, 0x02c9);
	check_eq(a.vendor_part_id, 4129);
	check_eq(a.page_size_cap & 4096, 4096);
	check_eq(a.atomic_cap, IBV_ATOMIC_HCA);
	check_eq(a.phys_port_cnt, 1);
	check_eq(a.max_qp_wr, LIMIT_QP_WR);
	check_eq(a.max_mw, LIMIT_MW);
	check_eq(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0);
	fixture_close(f);
}

TEST(query_ex_serves_shorter_and_longer_structs)
{
	struct fixture *f = fixture_open(8);
	const size_t full = sizeof(struct ibv_device_attr_ex);
	const size_t least = offsetof(struct ibv_device_attr_ex, odp_caps);
	union {
		struct ibv_device_attr_ex a;
		uint8_t bytes[sizeof(struct ibv_device_attr_ex) + 64];
	} u;

	for (size_t size = least; size <= full + 32; size++) {
		memset(&u, 0xee, sizeof(u));
		check_eq(device_query_ex(&f->hca, NULL, &u.a, size), 0);
		check_eq(u.a.orig_attr.phys_port_cnt, 1);
		check_eq(u.bytes[size], 0xee);
		if (size >= full)
			check_eq(u.a.phys_port_cnt_ex, 1);
		if (size > full)
			check_eq(u.bytes[size - 1], 0);
	}
	check_eq(u.a.completion_timestamp_mask, LIMIT_CLOCK_MASK);
	check_eq(u.a.max_dm_size, LIMIT_DM);
	check(u.a.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT);
	check_eq(device_query_ex(&f->hca, NULL, &u.a, least - 1), EINVAL);
	check_eq(device_query_ex(&f->hca, &(struct ibv_query_device_ex_input){ 1 }, &u.a, full),
		 EINVAL);
	fixture_close(f);
}

TEST(query_port_writes_what_the_caller_has)
{
	struct fixture *f = fixture_open(8);
	const size_t old = offsetof(struct ibv_port_attr, port_cap_flags2);
	struct ibv_port_attr a;

	memset(&a, 0xee, sizeof(a));
	check_eq(device_query_port(&f->hca, 1, &a, old), 0);
	check_eq(a.port_cap_flags2, 0xeeee);
	check_eq(a.state, IBV_PORT_ACTIVE);
	check_eq(a.active_mtu, IBV_MTU_1024);
	check_eq(a.link_layer, IBV_LINK_LAYER_ETHERNET);
	check_eq(a.flags, IBV_QPF_GRH_REQUIRED);
	check_eq(a.gid_tbl_len, LIMIT_GIDS);
	check_eq(device_query_port(&f->hca, 1, &a, sizeof(a)), 0);
	check_eq(a.port_cap_flags2, 0);
	f->up = false;
	check_eq(device_query_port(&f->hca, 1, &a, sizeof(a)), 0);
	check_eq(a.state, IBV_PORT_DOWN);
	check_eq(device_query_port(&f->hca, 0, &a, sizeof(a)), EINVAL);
	check_eq(device_query_port(&f->hca, 2, &a, sizeof(a)), EINVAL);
	check_reason("port 2");
	fixture_close(f);
}

TEST(a_count_ends_at_its_limit)
{
	uint32_t count = 0;

	check_eq(device_take(&count, 2, "x"), 0);
	check_eq(device_take(&count, 2, "x"), 0);
	check_eq(device_take(&count, 2, "x"), ENOMEM);
	device_give(&count);
	check_eq(device_take(&count, 2, "x"), 0);
}

TEST(cmd_fd_can_be_mapped_far_out_and_names_its_context)
{
	struct fixture *f = fixture_open(8);
	struct ibv_context *ib = &f->ctx->ib.context;
	struct stat a, b;
	int copy = dup(ib->cmd_fd);
	struct context *second;

	check(to_context(ib) == f->ctx);
	check(ib->num_comp_vectors >= 1);
	check_eq(fstat(copy, &a), 0);
	check(a.st_size >= 1LL << 32);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ib->cmd_fd, 1LL << 31);

	check(p != MAP_FAILED);
	munmap(p, 4096);
	check_eq(context_create(&f->hca, NULL, &second), 0);
	check_eq(fstat(second->ib.context.cmd_fd, &b), 0);
	check_ne(a.st_ino, b.st_ino);
	context_destroy(second);
	close(copy);
	fixture_close(f);
}

TEST(a_closed_context_refuses_new_objects_and_closes_its_descriptors)
{
	struct fixture *f = fixture_open(8);
	struct context *ctx;
	struct pd *pd, *more;

	check_eq(context_create(&f->hca, NULL, &ctx), 0);
	check_eq(pd_create(ctx, &pd), 0);
	int async_fd = ctx->ib.context.async_fd, cmd_fd = ctx->ib.context.cmd_fd;

	context_destroy(ctx);
	check_eq(fcntl(async_fd, F_GETFD), -1);
	check_eq(fcntl(cmd_fd, F_GETFD), -1);
	check_eq(pd_create(ctx, &more), EIO);
	check_reason("the device was closed");
	check_eq(pd_use(pd, "test"), EIO);
	check_eq(pd_destroy(pd), 0);
	fixture_close(f);
}

TEST(max_pd_domains_have_numbers_of_their_own)
{
	struct fixture *f = fixture_open(8);
	struct pd **pd = calloc(LIMIT_PD, sizeof(*pd)), *more;
	uint8_t *seen = calloc(1, 1 << 18);

	for (int i = 0; i < LIMIT_PD - 1; i++) { /* the fixture has one */
		check_eq(pd_create(f->ctx, &pd[i]), 0);
		check(pd[i]->pdn && pd[i]->pdn < 1 << 18);
		check(!seen[pd[i]->pdn]++);
	}
	check_eq(pd_create(f->ctx, &more), ENOMEM);
	check_reason("ibv_alloc_pd: all 16384");
	for (int i = 0; i < LIMIT_PD - 1; i++)
		check_eq(pd_destroy(pd[i]), 0);
	free(pd);
	free(seen);
	fixture_close(f);
}

NUMBERS(pool, 64);

TEST(a_number_given_back_comes_again_only_after_the_others)
{
	uint32_t n, first;

	check_eq(numbers_take(&pool, &first), 0);
	numbers_give(&pool, first);
	for (uint32_t i = 1; i < 63; i++) {
		check_eq(numbers_take(&pool, &n), 0);
		check(n >= 1 && n < 64);
		check_ne(n, first);
	}
	check_eq(numbers_take(&pool, &n), 0);
	check_eq(n, first);
	check_eq(numbers_take(&pool, &n), ENOSPC);
	numbers_give(&pool, 40);
	check_eq(numbers_take(&pool, &n), 0);
	check_eq(n, 40);
}

RUN_TESTS(unit_test(the_device_is_what_programs_expect),
	  unit_test(query_ex_serves_shorter_and_longer_structs),
	  unit_test(query_port_writes_what_the_caller_has), unit_test(a_count_ends_at_its_limit),
	  unit_test(cmd_fd_can_be_mapped_far_out_and_names_its_context),
	  unit_test(a_closed_context_refuses_new_objects_and_closes_its_descriptors),
	  unit_test(max_pd_domains_have_numbers_of_their_own),
	  unit_test(a_number_given_back_comes_again_only_after_the_others))
