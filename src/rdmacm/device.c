// SPDX-License-Identifier: MIT
/* Devices: opened at first use, one context each, which all ids share. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "rdmacm/id.h"

enum { MAX = 16 };

/* Guards what follows; innermost, so that a fork may take it. Nothing is opened under it: of two
 * threads that open the same, the second closes its own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened all[MAX];
static unsigned int count;
static pid_t owner; /* of the protection and XRC domains */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void lock_take(void)
{
	pthread_mutex_lock(&lock);
}

static void lock_drop(void)
{
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_take, lock_drop, lock_drop);
}

static uint8_t depth(int n)
{
	return n > 0xff ? 0xff : (uint8_t)n;
}

/* Under the lock. */
static struct opened *find(const char *name)
{
	for (unsigned int i = 0; i < count; i++)
		if (!strcmp(all[i].name, name))
			return &all[i];
	return NULL;
}

static struct opened *look_up(const char *name)
{
	struct opened *d;

	pthread_once(&once, watch_forks);
	lock_take();
	d = find(name);
	lock_drop();
	return d;
}

static int open_one(struct ibv_device *device)
{
	struct opened d = { .verbs = ibv_open_device(device) };
	struct ibv_device_attr attr;
	bool taken;

	if (!d.verbs)
		return errno;
	snprintf(d.name, sizeof(d.name), "%s", ibv_get_device_name(device));
	if (!ibv_query_device(d.verbs, &attr)) {
		d.max_initiator = depth(attr.max_qp_init_rd_atom);
		d.max_responder = depth(attr.max_qp_rd_atom);
	}
	lock_take();
	taken = count < MAX && !find(d.name);
	if (taken)
		all[count++] = d;
	lock_drop();
	if (!taken)
		ibv_close_device(d.verbs);
	return 0;
}

static unsigned int number(void)
{
	unsigned int n;

	pthread_once(&once, watch_forks);
	lock_take();
	n = count;
	lock_drop();
	return n;
}

/* Opens what is not open yet. */
static int open_all(void)
{
	struct ibv_device **list;
	int n = 0, err = 0;

	list = ibv_get_device_list(&n);
	if (!list)
		return errno;
	for (int i = 0; i < n && number() < MAX && !err; i++)
		if (!look_up(ibv_get_device_name(list[i])))
			err = open_one(list[i]);
	ibv_free_device_list(list);
	return number() ? 0 : err ? err : ENODEV;
}

int opened_find(const char *name, struct opened **out)
{
	int err = 0;

	*out = look_up(name);
	if (!*out) {
		err = open_all();
		*out = look_up(name);
	}
	return *out ? 0 : err ? err : ENODEV;
}

int opened_any(void)
{
	return number() ? 0 : open_all();
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

static struct ibv_pd *pd_of(struct opened *d, struct ibv_pd *made)
{
	lock_take();
	forget_parents();
	if (!d->pd)
		d->pd = made;
	made = d->pd;
	lock_drop();
	return made;
}

int opened_pd(struct opened *d, struct ibv_pd **out)
{
	struct ibv_pd *made;

	*out = pd_of(d, NULL);
	if (*out)
		return 0;
	made = ibv_alloc_pd(d->verbs);
	if (!made)
		return errno;
	*out = pd_of(d, made);
	if (*out != made)
		ibv_dealloc_pd(made);
	return 0;
}

static struct ibv_xrcd *xrcd_of(struct opened *d, struct ibv_xrcd *made)
{
	lock_take();
	forget_parents();
	if (!d->xrcd)
		d->xrcd = made;
	made = d->xrcd;
	lock_drop();
	return made;
}

int opened_xrcd(struct opened *d, struct ibv_xrcd **out)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = O_CREAT };
	struct ibv_xrcd *made;

	*out = xrcd_of(d, NULL);
	if (*out)
		return 0;
	made = ibv_open_xrcd(d->verbs, &attr);
	if (!made)
		return errno;
	*out = xrcd_of(d, made);
	if (*out != made)
		ibv_close_xrcd(made);
	return 0;
}

EXPORT struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	unsigned int n = 0;
	int err = open_all();

	if (!err) {
		list = calloc(MAX + 1, sizeof(*list));
		err = list ? 0 : ENOMEM;
	}
	if (list) {
		lock_take();
		for (; n < count; n++)
			list[n] = all[n].verbs;
		lock_drop();
	}
	if (num_devices)
		*num_devices = (int)n;
	return err ? null_errno(err) : list;
}

EXPORT void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
