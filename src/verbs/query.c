// SPDX-License-Identifier: MIT
/* Attributes of a device and its port. */
#include "hca/alive.h"
#include "hca/device.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/clock.h"
#include "verbs/export.h"
#include "verbs/newer.h"
#include "verbs/ops.h"
#include <arpa/inet.h>
#include <time.h>

#undef ibv_query_port

#define DEFAULT_PKEY 0xffff

EXPORT int ibv_query_device(struct ibv_context *ib, struct ibv_device_attr *attr)
{
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_query_device");

	if (!err)
		device_query(to_context(ib)->hca, attr);
	return positive_errno(err);
}

int ops_query_device_ex(struct ibv_context *ib, const struct ibv_query_device_ex_input *in,
			struct ibv_device_attr_ex *attr, size_t size)
{
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_query_device_ex");

	return positive_errno(err ? err : device_query_ex(to_context(ib)->hca, in, attr, size));
}

/* The whole counter stands in tv_nsec, as drivers do it. comp_mask: the values that were
 * returned. */
int ops_query_rt_values(struct ibv_context *ib, struct ibv_values_ex *values)
{
	uint32_t asked = values->comp_mask;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_query_rt_values_ex");

	if (err)
		return positive_errno(err);
	values->comp_mask = asked & IBV_VALUES_MASK_RAW_CLOCK;
	if (values->comp_mask)
		values->raw_clock = (struct timespec){ 0, (long)clock_raw() };
	return 0;
}

/* For mlx5dv_get_clock_info(). */
EXPORT void softhca_clock(uint64_t *raw, uint64_t *wall)
{
	*raw = clock_raw();
	*wall = *raw + clock_wall_offset();
}

int ops_query_port(struct ibv_context *ib, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_query_port");

	return positive_errno(err ? err : device_query_port(to_context(ib)->hca, port, attr, size));
}

/* The structure of this function ends before members that were added later. */
EXPORT int ibv_query_port(struct ibv_context *ib, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return ops_query_port(ib, port, (struct ibv_port_attr *)attr,
			      offsetof(struct ibv_port_attr, port_cap_flags2));
}

EXPORT int ibv_query_port_speed(struct ibv_context *ib, uint32_t port, uint64_t *speed)
{
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_query_port_speed");

	return positive_errno(err ? err : device_port_speed(to_context(ib)->hca, port, speed));
}

EXPORT int ibv_query_pkey(struct ibv_context *ib, uint8_t port, int index, __be16 *pkey)
{
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_query_pkey");

	if (err)
		return minus1_errno(err);
	if (port != 1)
		return minus1_errno(refuse(
			EINVAL, "ibv_query_pkey: port %u; there is one port, number 1", port));
	_Static_assert(LIMIT_PKEYS == 1, "the sentence names the only index");
	if (index)
		return minus1_errno(
			refuse(EINVAL, "ibv_query_pkey: index is %d, it must be 0", index));
	*pkey = htons(DEFAULT_PKEY);
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *ib, uint8_t port, __be16 pkey)
{
	__be16 have;

	for (int i = 0; i < LIMIT_PKEYS; i++) {
		if (ibv_query_pkey(ib, port, i, &have))
			return -1;
		if (have == pkey)
			return i;
	}
	return minus1_errno(refuse(ENOENT,
				   "ibv_get_pkey_index: no P_Key 0x%04x, only 0x%04x; ask for that",
				   ntohs(pkey), DEFAULT_PKEY));
}
