// SPDX-License-Identifier: MIT
/* Devices: opened at first use, one context each, which all ids share. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "rdmacm/id.h"
#include "util/mutex.h"

enum { MAX = 16 };

static struct mutex lock = MUTEX_INITIALIZER; /* guards what follows */
static struct opened all[MAX];
static unsigned int count;
static pid_t owner; /* of the protection and XRC domains */

static uint8_t depth(int n)
{
	return n > 0xff ? 0xff : (uint8_t)n;
}

static int open_one(struct ibv_device *device)
{
	struct opened *d = &all[count];
	struct ibv_device_attr attr;

	d->verbs = ibv_open_device(device);
	if (!d->verbs)
		return errno;
	snprintf(d->name, sizeof(d->name), "%s", ibv_get_device_name(device));
	if (!ibv_query_device(d->verbs, &attr)) {
		d->max_initiator = depth(attr.max_qp_init_rd_atom);
		d->max_responder = depth(attr.max_qp_rd_atom);
	}
	count++;
	return 0;
}

/* Opens what is not open yet. Under the lock. */
static int open_all(void)
{
	struct ibv_device **list;
	int n = 0, err = 0;

	list = ibv_get_device_list(&n);
	if (!list)
		return errno;
	for (int i = 0; i < n && count < MAX && !err; i++) {
		bool known = false;

		for (unsigned int k = 0; k < count; k++)
			known |= !strcmp(all[k].name, ibv_get_device_name(list[i]));
		if (!known)
			err = open_one(list[i]);
	}
	ibv_free_device_list(list);
	return count ? 0 : err ? err : ENODEV;
}

static struct opened *find(const char *name)
{
	for (unsigned int i = 0; i < count; i++)
		if (!strcmp(all[i].name, name))
			return &all[i];
	return NULL;
}

int opened_find(const char *name, struct opened **out)
{
	int err = 0;

	mutex_lock(&lock);
	*out = find(name);
	if (!*out) {
		err = open_all();
		*out = find(name);
	}
	mutex_unlock(&lock);
	return *out ? 0 : err ? err : ENODEV;
}

int opened_any(void)
{
	int err = 0;

	mutex_lock(&lock);
	if (!count)
		err = open_all();
	mutex_unlock(&lock);
	return err;
}

/* In a forked child the contexts go on with objects of its own; those of the parent do not. */
static void forget_parents(void)
{
	if (owner == getpid())
		return;
	owner = getpid();
	for (unsigned int i = 0; i < count; i++) {
		all[i].pd = NULL;
		all[i].xrcd = NULL;
	}
}

int opened_pd(struct opened *d, struct ibv_pd **out)
{
	mutex_lock(&lock);
	forget_parents();
	if (!d->pd)
		d->pd = ibv_alloc_pd(d->verbs);
	*out = d->pd;
	mutex_unlock(&lock);
	return *out ? 0 : errno;
}

int opened_xrcd(struct opened *d, struct ibv_xrcd **out)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = O_CREAT };

	mutex_lock(&lock);
	forget_parents();
	if (!d->xrcd)
		d->xrcd = ibv_open_xrcd(d->verbs, &attr);
	*out = d->xrcd;
	mutex_unlock(&lock);
	return *out ? 0 : errno;
}

EXPORT struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	int err;

	mutex_lock(&lock);
	err = open_all();
	if (!err) {
		list = calloc(count + 1, sizeof(*list));
		err = list ? 0 : ENOMEM;
	}
	for (unsigned int i = 0; list && i < count; i++)
		list[i] = all[i].verbs;
	if (num_devices)
		*num_devices = list ? (int)count : 0;
	mutex_unlock(&lock);
	return err ? null_errno(err) : list;
}

EXPORT void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
