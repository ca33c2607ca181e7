// SPDX-License-Identifier: MIT
/* The structures that programs of Debian 12 (rdma-core 44) were compiled with, against the
 * headers that we are compiled with: sizes, and offsets of what inline functions jump through.
 * The compiler checks; at run time a device's function table is looked at as such a program
 * would. */
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include "test.h"

#define SIZE(type, n)	   _Static_assert(sizeof(struct type) == (n), #type)
#define AT(type, field, n) _Static_assert(offsetof(struct type, field) == (n), #type "." #field)
#define OP(field, n)                                                                               \
	_Static_assert(offsetof(struct ibv_context, ops.field) -                                   \
				       offsetof(struct ibv_context, ops) ==                        \
			       (n),                                                                \
		       #field)

/* Of what has one inside, since its size is the architecture's. */
enum { MUTEX = sizeof(pthread_mutex_t) };

SIZE(ibv_qp, 120 + MUTEX);
SIZE(ibv_cq, 88 + MUTEX);
SIZE(ibv_srq, 88 + MUTEX);
SIZE(ibv_mr, 48);
SIZE(ibv_pd, 16);
SIZE(ibv_ah, 24);
SIZE(ibv_comp_channel, 16);
SIZE(ibv_device, 664);
SIZE(ibv_context, 288 + MUTEX);
SIZE(ibv_wq, 112 + MUTEX);
SIZE(ibv_flow, 24);
SIZE(ibv_td, 8);
SIZE(ibv_dm, 32);
SIZE(ibv_mw, 32);
SIZE(ibv_xrcd, 8);
SIZE(ibv_gid_entry, 32);
SIZE(rdma_cm_id, 416);
SIZE(rdma_cm_event, 80);
SIZE(rdma_event_channel, 4);
SIZE(mlx5dv_qp_ex, 104);

/* It grows at its front: what counts is the distance to its end, which a program keeps. */
#define BEFORE_CONTEXT(field, n)                                                                   \
	_Static_assert(offsetof(struct verbs_context, context) -                                   \
				       offsetof(struct verbs_context, field) ==                    \
			       (n),                                                                \
		       #field)
BEFORE_CONTEXT(query_port, 320);
BEFORE_CONTEXT(create_cq_ex, 120);
BEFORE_CONTEXT(query_device_ex, 104);
BEFORE_CONTEXT(create_qp_ex, 56);
BEFORE_CONTEXT(sz, 8);
_Static_assert(offsetof(struct verbs_context, context) + sizeof(struct ibv_context) ==
		       sizeof(struct verbs_context),
	       "last");

AT(ibv_context, ops, 8);
OP(alloc_mw, 56);
OP(bind_mw, 64);
OP(dealloc_mw, 72);
OP(poll_cq, 88);
OP(req_notify_cq, 96);
OP(post_srq_recv, 160);
OP(post_send, 200);
OP(post_recv, 208);

SIZE(ibv_cq_ex, 248 + MUTEX);
AT(ibv_cq_ex, status, 92 + MUTEX);
AT(ibv_cq_ex, wr_id, 96 + MUTEX);
AT(ibv_cq_ex, start_poll, 104 + MUTEX);
AT(ibv_cq_ex, read_completion_wallclock_ns, 240 + MUTEX);

/* It grows at its end: the library alone makes one. */
AT(ibv_qp_ex, wr_id, 128 + MUTEX);
AT(ibv_qp_ex, wr_flags, 136 + MUTEX);
AT(ibv_qp_ex, wr_atomic_cmp_swp, 144 + MUTEX);
AT(ibv_qp_ex, wr_start, 280 + MUTEX);
AT(ibv_qp_ex, wr_complete, 288 + MUTEX);
AT(ibv_qp_ex, wr_abort, 296 + MUTEX);
AT(ibv_qp_ex, wr_atomic_write, 304 + MUTEX);

static struct ibv_context *ctx;
static struct ibv_device **list;

static int open_first(void **state)
{
	(void)state;
	list = ibv_get_device_list(NULL);
	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	return ctx ? 0 : -1;
}

static int close_it(void **state)
{
	(void)state;
	ibv_free_device_list(list);
	return ibv_close_device(ctx);
}

TEST(a_device_has_a_null_provider_behind_it)
{
	const void *provider;

	memcpy(&provider, (const char *)list[0] + sizeof(struct ibv_device), sizeof(provider));
	check(!provider);
}

TEST(a_context_says_that_it_is_extended_and_how_far)
{
	struct verbs_context *v = verbs_get_ctx(ctx);

	check(v);
	check_eq(v->sz, sizeof(*v));
	check_eq(ctx->abi_compat, UINTPTR_MAX);
	check(ctx->device == list[0]);
	check(ctx->num_comp_vectors > 0);
	check(ctx->cmd_fd >= 0);
	check(ctx->async_fd >= 0);
}

/* Every pointer between the front and priv, and between priv and sz, is a function to be called. */
TEST(no_entry_of_the_table_is_missing)
{
	struct verbs_context *v = verbs_get_ctx(ctx);
	size_t first = offsetof(struct verbs_context, query_port);
	size_t last = offsetof(struct verbs_context, _ABI_placeholder3);

	for (size_t at = first; at < last; at += sizeof(void *)) {
		void *entry;

		memcpy(&entry, (char *)v + at, sizeof(entry));
		if (at == offsetof(struct verbs_context, priv) ||
		    at == offsetof(struct verbs_context, ABI_placeholder1) ||
		    at == offsetof(struct verbs_context, ABI_placeholder2))
			continue;
		if (!entry)
			fail_msg("entry at offset %zu of verbs_context", at);
	}
	check(ctx->ops.poll_cq && ctx->ops.req_notify_cq && ctx->ops.post_srq_recv);
	check(ctx->ops.post_send && ctx->ops.post_recv && ctx->ops.alloc_mw);
	check(ctx->ops.bind_mw && ctx->ops.dealloc_mw);
}

/* One that is not built yet ignores its arguments, so null pointers will do where the inline
 * function in front of it looks at nothing. */
TEST(entries_that_are_not_built_refuse_by_their_convention)
{
	struct verbs_context *v = verbs_get_ctx(ctx);

	check_eq(v->destroy_flow_action(NULL), EOPNOTSUPP);
	errno = 0;
	check(!v->create_flow_action_esp(NULL, NULL) && errno == EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(a_device_has_a_null_provider_behind_it),
		unit_test(a_context_says_that_it_is_extended_and_how_far),
		unit_test(no_entry_of_the_table_is_missing),
		unit_test(entries_that_are_not_built_refuse_by_their_convention),
	};

	return cmocka_run_group_tests(tests, open_first, close_it) ? 1 : 0;
}
