// SPDX-License-Identifier: MIT
/* Calls that take a size write that much: programs of any age pass theirs. And the error
 * conventions of the query calls, which differ from one to the next. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include "test.h"

enum { FILL = 0xa5 };

/* Exported without a header: the numbers of /sys, not of enum ibv_gid_type. */
int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index, int *type);

static struct ibv_context *ctx;
static struct ibv_device **list;
static struct ibv_port_attr port_attr;

static int open_first(void **state)
{
	(void)state;
	list = ibv_get_device_list(NULL);
	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	return ctx && !ibv_query_port(ctx, 1, &port_attr) ? 0 : -1;
}

static int close_it(void **state)
{
	(void)state;
	ibv_free_device_list(list);
	return ibv_close_device(ctx);
}

static void check_fill(const uint8_t *from, const uint8_t *to, uint8_t value)
{
	for (; from < to; from++)
		check_eq(*from, value);
}

#undef ibv_query_port
TEST(port_query_as_a_function_ends_at_the_first_abi)
{
	uint8_t buf[sizeof(struct ibv_port_attr) + 64];
	size_t end = offsetof(struct ibv_port_attr, port_cap_flags2);

	memset(buf, FILL, sizeof(buf));
	check_eq(ibv_query_port(ctx, 1, (struct _compat_ibv_port_attr *)buf), 0);
	check_mem(buf, &port_attr, end);
	check_fill(buf + end, buf + sizeof(buf), FILL);
}

TEST(port_query_writes_what_the_caller_has)
{
	struct verbs_context *v = verbs_get_ctx(ctx);
	uint8_t buf[sizeof(struct ibv_port_attr) + 64];
	static const size_t sizes[] = { offsetof(struct ibv_port_attr, port_cap_flags2),
					sizeof(struct ibv_port_attr),
					sizeof(struct ibv_port_attr) + 32 };

	for (size_t i = 0; i < 3; i++) {
		size_t known = sizes[i] < sizeof(port_attr) ? sizes[i] : sizeof(port_attr);

		memset(buf, FILL, sizeof(buf));
		check_eq(v->query_port(ctx, 1, (struct ibv_port_attr *)buf, sizes[i]), 0);
		check_mem(buf, &port_attr, known);
		check_fill(buf + known, buf + sizes[i], 0);
		check_fill(buf + sizes[i], buf + sizeof(buf), FILL);
	}
}

TEST(port_query_knows_its_ports)
{
	struct verbs_context *v = verbs_get_ctx(ctx);
	struct ibv_port_attr attr;

	check_eq(v->query_port(ctx, 0, &attr, sizeof(attr)), EINVAL);
	check_eq(v->query_port(ctx, 2, &attr, sizeof(attr)), EINVAL);
	check_eq(ibv_query_port(ctx, 2, (struct _compat_ibv_port_attr *)&attr), EINVAL);
}

TEST(device_query_writes_what_the_caller_has)
{
	struct verbs_context *v = verbs_get_ctx(ctx);
	struct ibv_device_attr_ex whole;
	uint8_t buf[sizeof(whole) + 64];

	check_eq(ibv_query_device_ex(ctx, NULL, &whole), 0);
	memset(buf, FILL, sizeof(buf));
	check_eq(
		v->query_device_ex(ctx, NULL, (struct ibv_device_attr_ex *)buf, sizeof(whole) + 32),
		0);
	check_fill(buf + sizeof(whole), buf + sizeof(whole) + 32, 0);
	check_fill(buf + sizeof(whole) + 32, buf + sizeof(buf), FILL);
	memset(buf, FILL, sizeof(buf));
	check_eq(v->query_device_ex(ctx, NULL, (struct ibv_device_attr_ex *)buf,
				    offsetof(struct ibv_device_attr_ex, odp_caps)),
		 0);
	check_mem(buf, &whole.orig_attr, sizeof(struct ibv_device_attr));
	check_fill(buf + offsetof(struct ibv_device_attr_ex, odp_caps), buf + sizeof(buf), FILL);
}

static bool is_empty(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

/* The same entry by each of the calls, by their own rules for an empty one. */
static bool check_entry(int i)
{
	struct ibv_gid_entry e;
	union ibv_gid gid;
	int type = -1;

	check_eq(ibv_query_gid(ctx, 1, i, &gid), 0);
	check_eq(ibv_query_gid_type(ctx, 1, (unsigned int)i, &type), 0);
	if (is_empty(&gid)) {
		check_eq(ibv_query_gid_ex(ctx, 1, (uint32_t)i, &e, 0), ENODATA);
		return false;
	}
	check_eq(ibv_query_gid_ex(ctx, 1, (uint32_t)i, &e, 0), 0);
	check_mem(&e.gid, &gid, sizeof(gid));
	check_eq(e.gid_index, i);
	check_eq(e.port_num, 1);
	check_eq(e.gid_type, type ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1);
	check(e.ndev_ifindex > 0);
	return true;
}

TEST(every_call_sees_the_same_gid_table)
{
	struct ibv_gid_entry table[64];
	int used = 0;

	for (int i = 0; i < port_attr.gid_tbl_len; i++)
		used += check_entry(i);
	check(used >= 2);
	check_eq(ibv_query_gid_table(ctx, table, 64, 0), used);
	check_eq(ibv_query_gid_table(ctx, table, (size_t)used, 0), used);
}

TEST(gid_calls_refuse_by_their_conventions)
{
	struct ibv_gid_entry e[16];
	union ibv_gid gid;

	errno = 0;
	check_eq(ibv_query_gid(ctx, 1, port_attr.gid_tbl_len, &gid), -1);
	check_eq(errno, EINVAL);
	check_eq(ibv_query_gid(ctx, 1, -1, &gid), -1);
	check_eq(ibv_query_gid(ctx, 2, 0, &gid), -1);
	check_eq(ibv_query_gid_ex(ctx, 1, (uint32_t)port_attr.gid_tbl_len, e, 0), EINVAL);
	check_eq(ibv_query_gid_ex(ctx, 1, 0, e, 1), EOPNOTSUPP);
	check_eq(_ibv_query_gid_ex(ctx, 1, 0, e, 0, sizeof(*e) - 4), EINVAL);
	check_eq(ibv_query_gid_table(ctx, e, 0, 0), -EINVAL);
	check_eq(ibv_query_gid_table(ctx, e, 1, 0), -EINVAL);
	check_eq(ibv_query_gid_table(ctx, e, 16, 1), -EOPNOTSUPP);
}

TEST(gid_entries_have_the_size_of_the_caller)
{
	enum { SIZE = sizeof(struct ibv_gid_entry) + 16 };
	uint8_t buf[SIZE * 17];
	struct ibv_gid_entry first;
	ssize_t n;

	memset(buf, FILL, sizeof(buf));
	check_eq(ibv_query_gid_ex(ctx, 1, 0, &first, 0), 0);
	n = _ibv_query_gid_table(ctx, (struct ibv_gid_entry *)buf, 16, 0, SIZE);
	check(n >= 2);
	check_mem(buf, &first, sizeof(first));
	check_fill(buf + sizeof(first), buf + SIZE, 0);
	check_fill(buf + n * SIZE, buf + sizeof(buf), FILL);
}

TEST(there_is_one_pkey)
{
	__be16 key;

	check_eq(port_attr.pkey_tbl_len, 1);
	check_eq(ibv_query_pkey(ctx, 1, 0, &key), 0);
	check_eq(key, 0xffff);
	check_eq(ibv_query_pkey(ctx, 1, 1, &key), -1);
	check_eq(ibv_query_pkey(ctx, 1, -1, &key), -1);
	check_eq(ibv_query_pkey(ctx, 2, 0, &key), -1);
	check_eq(ibv_get_pkey_index(ctx, 1, 0xffff), 0);
	check_eq(ibv_get_pkey_index(ctx, 1, 0x1234), -1);
}

TEST(devices_are_the_same_in_each_list)
{
	int n = 0, m = 0;
	struct ibv_device **again = ibv_get_device_list(&n);

	check(again && n > 0);
	while (list[m])
		m++;
	check_eq(n, m);
	for (int i = 0; i <= n; i++)
		check(again[i] == list[i]);
	check_str(ibv_get_device_name(again[0]), again[0]->name);
	check_ne(ibv_get_device_guid(again[0]), 0);
	check_eq(again[0]->node_type, IBV_NODE_CA);
	check_eq(again[0]->transport_type, IBV_TRANSPORT_IB);
	ibv_free_device_list(again);
}

static void set_nonblocking(int fd)
{
	check_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

TEST(event_calls_honour_a_non_blocking_descriptor)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	struct ibv_async_event ev;
	struct ibv_cq *cq;
	void *user;

	check(ch);
	set_nonblocking(ch->fd);
	set_nonblocking(ctx->async_fd);
	errno = 0;
	check(ibv_get_cq_event(ch, &cq, &user) == -1 && errno == EAGAIN);
	errno = 0;
	check(ibv_get_async_event(ctx, &ev) == -1 && errno == EAGAIN);
	check_eq(ibv_destroy_comp_channel(ch), 0);
}

TEST(creation_fails_with_null_and_errno)
{
	struct ibv_device_attr attr;

	check_eq(ibv_query_device(ctx, &attr), 0);
	errno = 0;
	check(!ibv_create_cq(ctx, attr.max_cqe + 1, NULL, NULL, 0) && errno == EINVAL);
	errno = 0;
	check(!ibv_create_cq(ctx, 16, NULL, NULL, ctx->num_comp_vectors + 1) && errno == EINVAL);
	errno = 0;
	check(!ibv_create_cq(ctx, 0, NULL, NULL, 0) && errno == EINVAL);
}

/* Of libmlx5's answer only the members whose bits are set are the caller's, and answered. */
TEST(mlx5_query_writes_what_it_is_asked)
{
	const uint64_t known = MLX5DV_CONTEXT_MASK_SWP | MLX5DV_CONTEXT_MASK_DCI_STREAMS;
	union {
		struct mlx5dv_context attr;
		uint8_t bytes[sizeof(struct mlx5dv_context)];
	} u;

	memset(&u, FILL, sizeof(u));
	u.attr.comp_mask = known | 1ULL << 40; /* a bit of later releases */
	check_eq(mlx5dv_query_device(ctx, &u.attr), 0);
	check_eq(u.attr.version, 0);
	check_eq(u.attr.flags, MLX5DV_CONTEXT_FLAGS_CQE_V1 | MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP |
				       MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD);
	check_eq(u.attr.comp_mask, known);
	check_eq(u.attr.sw_parsing_caps.sw_parsing_offloads, 0);
	check(u.attr.dci_streams_caps.max_log_num_concurent != FILL);
	check_fill((uint8_t *)&u.attr.cqe_comp_caps, (uint8_t *)&u.attr.sw_parsing_caps, FILL);
	check_fill((uint8_t *)&u.attr.max_wr_memcpy_length, u.bytes + sizeof(u), FILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(port_query_as_a_function_ends_at_the_first_abi),
		unit_test(port_query_writes_what_the_caller_has),
		unit_test(port_query_knows_its_ports),
		unit_test(device_query_writes_what_the_caller_has),
		unit_test(every_call_sees_the_same_gid_table),
		unit_test(gid_calls_refuse_by_their_conventions),
		unit_test(gid_entries_have_the_size_of_the_caller),
		unit_test(there_is_one_pkey),
		unit_test(devices_are_the_same_in_each_list),
		unit_test(event_calls_honour_a_non_blocking_descriptor),
		unit_test(creation_fails_with_null_and_errno),
		unit_test(mlx5_query_writes_what_it_is_asked),
	};

	return cmocka_run_group_tests(tests, open_first, close_it) ? 1 : 0;
}
