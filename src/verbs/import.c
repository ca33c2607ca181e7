// SPDX-License-Identifier: MIT
/* Importing: second names for a device file's objects, within this process. The file is recognised
 * by its inode, so any duplicate of cmd_fd will do. One of another process names a device whose
 * objects are not here, and is refused. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "engine/node.h"
#include "engine/node_self.h"
#include "hca/alive.h"
#include "hca/dm.h"
#include "obs/explain.h"
#include "verbs/export.h"
#include "verbs/ops.h"

static struct context *find(const struct stat *st)
{
	char names[NODE_DEVICES][IBV_SYSFS_NAME_MAX];
	uint64_t guids[NODE_DEVICES];
	unsigned int n = node_self() ? node_device_names(names, guids) : 0;
	struct context *ctx = NULL;
	struct hca *hca;

	for (unsigned int i = 0; i < n && !ctx; i++)
		if (!node_hca(names[i], &hca))
			ctx = context_find(hca, st->st_dev, st->st_ino);
	return ctx;
}

static int not_ours(int fd)
{
	char path[32], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) < 0)
		name[0] = 0;
	if (!strncmp(name, "/memfd:softhca-context", 22))
		return refuse(
			EOPNOTSUPP,
			"ibv_import_device: fd %d is the cmd_fd of a device that another process "
			"has opened, or this one had closed or before fork(); open the device "
			"here",
			fd);
	return refuse(EINVAL,
		      "ibv_import_device: fd %d (%s) is no cmd_fd of an open device; pass "
		      "ibv_context.cmd_fd",
		      fd, name);
}

static int import(int fd, struct context **out)
{
	struct context *orig;
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return refuse(EBADF,
			      "ibv_import_device: fd %d is not open; pass ibv_context.cmd_fd of an "
			      "open device",
			      fd);
	orig = find(&st);
	if (!orig)
		return not_ours(fd);
	err = context_import(orig, fd, out);
	context_put(orig);
	return err;
}

EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct context *ctx;
	int err = import(cmd_fd, &ctx);

	if (err)
		return null_errno(err);
	ops_fill(&ctx->ib);
	return alive_made(ALIVE_CONTEXT, &ctx->ib.context);
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *ib, uint32_t pd_handle)
{
	struct pd *pd;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_import_pd");

	if (!err)
		err = pd_import(to_context(ib), pd_handle, &pd);
	return err ? null_errno(err) : alive_made(ALIVE_PD, &pd->ib);
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	struct alive_end end;

	if (alive_take(ALIVE_PD, pd, "ibv_unimport_pd", &end))
		return;
	pd_unimport(to_pd(pd));
	alive_left(&end, 0);
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	struct mr *mr;
	int err = alive_check(ALIVE_PD, pd, "ibv_import_mr");

	if (!err)
		err = mr_import(to_pd(pd), mr_handle, &mr);
	return err ? null_errno(err) : alive_made(ALIVE_MR, &mr->ib);
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	struct alive_end end;

	if (!alive_take(ALIVE_MR, mr, "ibv_unimport_mr", &end))
		alive_left(&end, mr_unimport((struct mr *)mr) ? 0 : EBUSY);
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *ib, uint32_t dm_handle)
{
	struct dm *dm;
	int err = alive_check(ALIVE_CONTEXT, ib, "ibv_import_dm");

	if (!err)
		err = dm_import(to_context(ib), dm_handle, &dm);
	return err ? null_errno(err) : alive_made(ALIVE_DM, &dm->ib);
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	struct alive_end end;

	if (alive_take(ALIVE_DM, dm, "ibv_unimport_dm", &end))
		return;
	dm_unimport(to_dm(dm));
	alive_left(&end, 0);
}
