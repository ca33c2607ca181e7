// SPDX-License-Identifier: MIT
/* Devices: the list, opening and closing, their names and paths in /sys. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "driver/events.h"
#include "engine/node.h"
#include "engine/reserved.h"
#include "hca/alive.h"
#include "obs/explain.h"
#include "util/barrier.h"
#include "util/output.h"
#include "util/settings.h"
#include "verbs/export.h"
#include "verbs/ops.h"

#undef ibv_get_device_list

struct listed {
	struct ibv_device ib; /* first */
	const void *provider; /* NULL: libefa looks here for its own mark, behind any ibv_device */
	uint64_t guid; /* big-endian */
};

/* Every device that this process ever listed, in the order of first sight. An entry stays,
 * since programs keep pointers to it beyond ibv_free_device_list(). Entries go from NULL to
 * their device (A) and never change again. */
static struct listed *devices[NODE_DEVICES];

static struct listed *device_new(const char *name, uint64_t guid, unsigned int n)
{
	struct listed *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->guid = guid;
	d->ib.node_type = IBV_NODE_CA;
	d->ib.transport_type = IBV_TRANSPORT_IB;
	snprintf(d->ib.name, sizeof(d->ib.name), "%.*s", IBV_SYSFS_NAME_MAX - 1, name);
	snprintf(d->ib.dev_name, sizeof(d->ib.dev_name), "uverbs%u", n);
	snprintf(d->ib.dev_path, sizeof(d->ib.dev_path), "/sys/class/infiniband_verbs/uverbs%u", n);
	snprintf(d->ib.ibdev_path, sizeof(d->ib.ibdev_path), "/sys/class/infiniband/%s",
		 d->ib.name);
	return d;
}

/* The device in entry @n after the call: the new one, or that of a thread that was faster. */
static struct listed *device_put(struct listed *d, unsigned int n)
{
	struct listed *there = NULL;

	if (!d || cas_acq_rel(&devices[n], &there, d)) /* (A) */
		return d;
	free(d);
	return there;
}

/* NULL: no memory, or more names than a process may see in its life. */
static struct ibv_device *device_find(const char *name, uint64_t guid)
{
	for (unsigned int i = 0; i < NODE_DEVICES; i++) {
		struct listed *d = load_acquire(&devices[i]); /* (A) */

		if (!d)
			d = device_put(device_new(name, guid, i), i);
		if (!d)
			return NULL;
		if (strcmp(d->ib.name, name) == 0)
			return &d->ib;
	}
	return NULL;
}

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	char names[NODE_DEVICES][IBV_SYSFS_NAME_MAX];
	uint64_t guids[NODE_DEVICES];
	unsigned int n = node_device_names(names, guids);
	struct ibv_device **list = calloc(n + 1, sizeof(void *));
	unsigned int count = 0;

	output_begin();
	settings_check();
	if (num_devices)
		*num_devices = 0;
	if (!list)
		return null_errno(refuse(ENOMEM, "ibv_get_device_list: no memory for the list; "
						 "raise the limit (ulimit -v)"));
	for (unsigned int i = 0; i < n; i++) {
		list[count] = device_find(names[i], guids[i]);
		if (list[count])
			count++;
	}
	if (num_devices)
		*num_devices = (int)count;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return ((struct listed *)device)->guid;
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	(void)device; /* the kernel's number of a device that it has; it has none of ours */
	return -1;
}

/* Is it one of ours? Only then it is read. */
static int check_listed(const struct ibv_device *device)
{
	for (unsigned int i = 0; i < NODE_DEVICES; i++) {
		const struct listed *d = load_acquire(&devices[i]); /* (A) */

		if (d && &d->ib == device)
			return 0;
	}
	return refuse(ENODEV,
		      "ibv_open_device: no device is at %p; pass one that ibv_get_device_list() "
		      "gave",
		      (const void *)device);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct context *ctx;
	struct hca *hca;
	int err = check_listed(device);

	if (!err)
		err = node_hca(device->name, &hca);
	if (!err)
		err = context_create(hca, device, &ctx);
	if (err)
		return null_errno(err);
	store_relaxed(&hca->taken, &events_taken); /* the same each time */
	ops_fill(&ctx->ib);
	return alive_made(ALIVE_CONTEXT, &ctx->ib.context);
}

/* For libmlx5. */
EXPORT int softhca_context_alive(const struct ibv_context *ib, const char *call)
{
	return alive_check(ALIVE_CONTEXT, ib, call);
}

/* For libmlx5. */
EXPORT int softhca_context_memory(struct ibv_context *ib, void *(*alloc)(size_t size, void *data),
				  void (*release)(void *p, void *data), void *data)
{
	int err = context_use(to_context(ib), "mlx5dv_set_context_attr");

	if (!err)
		to_context(ib)->memory = (struct context_memory){ alloc, release, data };
	return err;
}

EXPORT int ibv_close_device(struct ibv_context *ib)
{
	struct alive_end end;
	int err = alive_take(ALIVE_CONTEXT, ib, "ibv_close_device", &end);

	if (err)
		return minus1_errno(err);
	reserved_close(to_context(ib));
	context_destroy(to_context(ib));
	return alive_left(&end, 0);
}
