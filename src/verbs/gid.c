// SPDX-License-Identifier: MIT
/* The GID table, in each form that programs ask for it. An empty entry is a zero GID to
 * ibv_query_gid() and absent to the newer calls. */
#include <string.h>
#include <sys/types.h>
#include "hca/alive.h"
#include "hca/device.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "private_nodes.h"
#include "verbs/export.h"

/* As /sys/class/infiniband counts them: not enum ibv_gid_type. */
enum gid_type_sysfs { GID_TYPE_SYSFS_ROCE_V1, GID_TYPE_SYSFS_ROCE_V2 };

EXPORT int ibv_query_gid_type(struct ibv_context *ib, uint8_t port, unsigned int index,
			      enum gid_type_sysfs *type) PRIVATE_SYMBOL(ibv_query_gid_type);

static int read_entry(struct ibv_context *ib, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *out)
{
	int err = alive_check(ALIVE_CONTEXT, ib, "GID query");
	const struct hca *hca;
	bool v2;

	if (err)
		return err;
	if (port != 1)
		return refuse(EINVAL, "GID query: port %u; there is one port, number 1", port);
	if (index >= LIMIT_GIDS)
		return refuse(EINVAL, "GID query: index %u is outside the table of %d; use 0..%d",
			      index, LIMIT_GIDS, LIMIT_GIDS - 1);
	*out = (struct ibv_gid_entry){ .gid_index = index, .port_num = port };
	hca = to_context(ib)->hca;
	err = hca->ports->gid(hca->ports_arg, index, &out->gid, &v2, &out->ndev_ifindex);

	if (err)
		return err;
	out->gid_type = v2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
	return 0;
}

static bool is_empty(const struct ibv_gid_entry *e)
{
	return !e->gid.global.subnet_prefix && !e->gid.global.interface_id;
}

/* Size contract: a caller of any age gets the entry of its own size, zero beyond what we know. */
static int check_size(const char *call, uint32_t flags, size_t size)
{
	if (flags)
		return refuse(EOPNOTSUPP, "%s: flags 0x%x, none is defined; pass 0", call, flags);
	if (size < sizeof(struct ibv_gid_entry))
		return refuse(EINVAL,
			      "%s: entries of %zu bytes, the smallest are of %zu; pass "
			      "sizeof(struct ibv_gid_entry)",
			      call, size, sizeof(struct ibv_gid_entry));
	return 0;
}

static void write_entry(void *to, const struct ibv_gid_entry *e, size_t size)
{
	memset(to, 0, size);
	memcpy(to, e, sizeof(*e));
}

EXPORT int ibv_query_gid(struct ibv_context *ib, uint8_t port, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry e;
	int err = read_entry(ib, port, (uint32_t)index, &e);

	if (err)
		return minus1_errno(err);
	*gid = e.gid;
	return 0;
}

EXPORT int ibv_query_gid_type(struct ibv_context *ib, uint8_t port, unsigned int index,
			      enum gid_type_sysfs *type)
{
	struct ibv_gid_entry e;
	int err = read_entry(ib, port, index, &e);

	if (err)
		return minus1_errno(err);
	*type = !is_empty(&e) && e.gid_type == IBV_GID_TYPE_ROCE_V2 ? GID_TYPE_SYSFS_ROCE_V2
								    : GID_TYPE_SYSFS_ROCE_V1;
	return 0;
}
AT_EACH_NODE(ibv_query_gid_type)

EXPORT int _ibv_query_gid_ex(struct ibv_context *ib, uint32_t port, uint32_t index,
			     struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry e;
	int err = check_size("ibv_query_gid_ex", flags, entry_size);

	if (!err)
		err = read_entry(ib, port, index, &e);
	if (!err && is_empty(&e))
		err = ENODATA; /* without a reason: programs read the whole table */
	if (err)
		return positive_errno(err);
	write_entry(entry, &e, entry_size);
	return 0;
}

/* A count, or a negative errno, which errno is then, too. */
EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *ib, struct ibv_gid_entry *entries,
				    size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry e;
	size_t n = 0;
	int err = check_size("ibv_query_gid_table", flags, entry_size);

	for (uint32_t i = 0; i < LIMIT_GIDS && !err; i++) {
		err = read_entry(ib, 1, i, &e);
		if (err || is_empty(&e))
			continue;
		if (n == max_entries)
			err = refuse(EINVAL,
				     "ibv_query_gid_table: room for %zu entries, there are more; "
				     "give room for gid_tbl_len",
				     max_entries);
		else
			write_entry((char *)entries + n++ * entry_size, &e, entry_size);
	}
	return err ? -positive_errno(err) : (ssize_t)n;
}
