// SPDX-License-Identifier: MIT
#include "hca/dm.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hca/limits.h"
#include "hca/numbers.h"
#include "obs/explain.h"
#include "util/fork.h"
#include "util/sealed.h"

#define PAGE	  4096UL
#define ALIGN	  4 /* of offsets and lengths, as on mlx5 */
#define ALIGN_MAX 21 /* log2 of the largest alignment: 2 MiB */
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

NUMBERS(handles, 1 << 14); /* the pages of each of 16 devices */

struct dm_memory {
	struct hca *hca;
	struct context *root;
	struct list node; /* on root's list */
	uint32_t epoch;
	uint32_t handle;
	uint32_t names; /* atomic */
	uint32_t regions; /* atomic; with GONE: freed by a name */
	int fd;
	uint8_t *p;
	uint64_t len; /* bytes, as asked for */
	uint8_t *reserved; /* the mapping that p lies in */
	size_t span;
};

#define GONE (1U << 31)

static uint64_t pages(uint64_t len)
{
	return (len + PAGE - 1) / PAGE;
}

static int take_pages(struct hca *hca, uint64_t len)
{
	uint32_t n = (uint32_t)pages(len), have = load_relaxed(&hca->count.dm_pages);

	do
		if (n > LIMIT_DM / PAGE - have)
			return refuse(ENOMEM,
				      "ibv_alloc_dm: %" PRIu64
				      " B, but %lu of the device's %d B are "
				      "in use; free some first",
				      len, have * PAGE, LIMIT_DM);
	while (!cas_acq_rel(&hca->count.dm_pages, &have, have + n));
	return 0;
}

static void give_pages(struct hca *hca, uint64_t len)
{
	fetch_sub_acq_rel(&hca->count.dm_pages, (uint32_t)pages(len));
}

static int check(const struct ibv_alloc_dm_attr *a)
{
	if (a->comp_mask)
		return refuse(EINVAL, "ibv_alloc_dm: comp_mask 0x%x, nothing is defined; pass 0",
			      a->comp_mask);
	if (!a->length || a->length > LIMIT_DM)
		return refuse(
			EINVAL,
			"ibv_alloc_dm: length %zu B is not in 1..%d (max_dm_size); ask for less",
			a->length, LIMIT_DM);
	if (a->log_align_req > ALIGN_MAX)
		return refuse(
			EINVAL,
			"ibv_alloc_dm: log_align_req %u, at most %d is possible; ask for less",
			a->log_align_req, ALIGN_MAX);
	return 0;
}

/* Maps it at a multiple of @align, a power of two. */
static int map(struct dm_memory *m, size_t align)
{
	size_t len = pages(m->len) * PAGE;
	uintptr_t at;

	m->span = len + (align > PAGE ? align : 0);
	m->reserved = mmap(NULL, m->span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m->reserved == MAP_FAILED) {
		m->reserved = NULL;
		return errno;
	}
	at = ((uintptr_t)m->reserved + align - 1) & ~(align - 1);
	m->p = mmap((void *)at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->fd, 0);
	return m->p == MAP_FAILED || madvise(m->reserved, m->span, MADV_DONTFORK) ? errno : 0;
}

static int make(struct dm_memory *m, size_t align)
{
	int err;

	m->fd = memfd_create("softhca-dm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (m->fd < 0)
		return errno;
	err = sealed_size(m->fd, pages(m->len) * PAGE);
	if (err)
		return err;
	if (fallocate(m->fd, 0, 0, (off_t)(pages(m->len) * PAGE)) ||
	    fcntl(m->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return errno;
	return map(m, align);
}

/* The last name and the last region are gone. */
static void memory_free(struct dm_memory *m)
{
	if (!m)
		return;
	if (fork_is_ours(m->epoch)) {
		if (m->reserved)
			munmap(m->reserved, m->span);
		if (m->handle)
			numbers_give(&handles, m->handle);
		give_pages(m->hca, m->len);
	}
	if (m->fd >= 0)
		close(m->fd);
	context_put(m->root);
	free(m);
}

/* Under the lock of the list, since find() adds names. True: it was the last, and the memory is on
 * the list no more, though no call has freed it (dm_unimport()). */
static bool left_list(struct dm_memory *m)
{
	struct context_objects *o = &m->root->objects;
	bool last;

	if (!fork_is_ours(m->epoch))
		return fetch_sub_acq_rel(&m->names, 1) == 1;
	pthread_mutex_lock(&o->lock);
	last = fetch_sub_acq_rel(&m->names, 1) == 1;
	if (last)
		list_del(&m->node);
	pthread_mutex_unlock(&o->lock);
	return last;
}

static void leave(struct dm_memory *m)
{
	if (left_list(m))
		memory_free(m);
}

static int memory_make(struct context *ctx, const struct ibv_alloc_dm_attr *attr,
		       struct dm_memory **out)
{
	size_t align = attr->log_align_req > 12 ? (size_t)1 << attr->log_align_req : PAGE;
	struct dm_memory *m = calloc(1, sizeof(*m));
	int err;

	if (!m) {
		give_pages(ctx->hca, attr->length);
		return refuse(ENOMEM, "ibv_alloc_dm: no memory; raise the limit (ulimit -v)");
	}
	m->hca = ctx->hca;
	m->root = ctx->root;
	context_get(m->root);
	m->epoch = fork_epoch();
	m->names = 1;
	m->len = attr->length;
	list_init(&m->node);
	err = make(m, align);
	if (!err)
		err = numbers_take(&handles, &m->handle);
	if (err) {
		memory_free(m);
		return refuse(ENOMEM, "ibv_alloc_dm: no memory for %zu B (%s); ask for less",
			      attr->length, strerror(err));
	}
	*out = m;
	return 0;
}

static int to_dm_call(struct ibv_dm *ib, uint64_t off, const void *from, size_t len)
{
	return dm_write(to_dm(ib), off, from, len);
}

static int from_dm_call(void *to, struct ibv_dm *ib, uint64_t off, size_t len)
{
	return dm_read(to_dm(ib), off, to, len);
}

/* Owns a name of @m from now on, which is given up on failure. */
static struct dm *name_new(struct context *ctx, struct dm_memory *m)
{
	struct dm *dm = calloc(1, sizeof(*dm));

	if (!dm) {
		leave(m);
		return NULL;
	}
	context_get(ctx);
	dm->ctx = ctx;
	dm->epoch = fork_epoch();
	dm->memory = m;
	dm->ib = (struct ibv_dm){ .context = &ctx->ib.context,
				  .memcpy_to_dm = to_dm_call,
				  .memcpy_from_dm = from_dm_call,
				  .comp_mask = IBV_DM_MASK_HANDLE,
				  .handle = m->handle };
	return dm;
}

static void name_free(struct dm *dm)
{
	leave(dm->memory);
	context_put(dm->ctx);
	free(dm);
}

int dm_create(struct context *ctx, const struct ibv_alloc_dm_attr *attr, struct dm **out)
{
	struct dm_memory *m = NULL;
	int err = context_use(ctx, "ibv_alloc_dm");

	if (!err)
		err = check(attr);
	if (!err)
		err = take_pages(ctx->hca, attr->length);
	if (!err)
		err = memory_make(ctx, attr, &m);
	if (err)
		return err;
	*out = name_new(ctx, m);
	if (!*out)
		return refuse(ENOMEM, "ibv_alloc_dm: no memory; raise the limit (ulimit -v)");
	pthread_mutex_lock(&ctx->root->objects.lock);
	list_add(&ctx->root->objects.dms, &m->node);
	pthread_mutex_unlock(&ctx->root->objects.lock);
	return 0;
}

static int memory_gone(struct dm_memory *m)
{
	uint32_t none = 0;

	if (!cas_acq_rel(&m->regions, &none, GONE)) {
		if (none & GONE)
			return refuse(
				EINVAL,
				"ibv_free_dm: DM 0x%x was freed by another of its names; give "
				"this one up by ibv_unimport_dm()",
				m->handle);
		return refuse(EBUSY, "ibv_free_dm: %u region%s on DM 0x%x; deregister %s first",
			      none, none == 1 ? " is registered" : "s are registered", m->handle,
			      none == 1 ? "it" : "them");
	}
	pthread_mutex_lock(&m->root->objects.lock);
	list_del(&m->node);
	pthread_mutex_unlock(&m->root->objects.lock);
	return 0;
}

int dm_destroy(struct dm *dm)
{
	int err = fork_is_ours(dm->epoch) ? memory_gone(dm->memory) : 0;

	if (!err)
		name_free(dm);
	return err;
}

static int range_check(const struct dm *dm, uint64_t off, size_t len, const char *call)
{
	const struct dm_memory *m = dm->memory;

	if (!fork_is_ours(dm->epoch))
		return refuse(EIO, "%s: DM 0x%x was made before fork(); allocate in the child",
			      call, m->handle);
	if (load_relaxed(&m->regions) & GONE)
		return refuse(EINVAL,
			      "%s: DM 0x%x was freed by another of its names; allocate another",
			      call, m->handle);
	if (len > m->len || off > m->len - len)
		return refuse(EFAULT,
			      "%s: %zu B at offset %" PRIu64 " reach out of DM 0x%x of %" PRIu64
			      " B; stay within",
			      call, len, off, m->handle, m->len);
	if ((off | len) % ALIGN)
		return refuse(EINVAL,
			      "%s: offset %" PRIu64 " and length %zu on DM 0x%x must be multiples "
			      "of %d",
			      call, off, len, m->handle, ALIGN);
	return 0;
}

int dm_write(struct dm *dm, uint64_t off, const void *from, size_t len)
{
	int err = range_check(dm, off, len, "ibv_memcpy_to_dm");

	if (!err)
		memcpy(dm->memory->p + off, from, len);
	return err;
}

int dm_read(struct dm *dm, uint64_t off, void *to, size_t len)
{
	int err = range_check(dm, off, len, "ibv_memcpy_from_dm");

	if (!err)
		memcpy(to, dm->memory->p + off, len);
	return err;
}

int dm_mapping(const struct dm *dm, void **p, uint64_t *len)
{
	int err = range_check(dm, 0, 0, "mlx5dv_init_obj");

	if (err)
		return err;
	*p = dm->memory->p;
	*len = dm->memory->len;
	return 0;
}

static int register_check(struct pd *pd, const struct dm *dm, const struct mr_attr *a)
{
	static const char call[] = "ibv_reg_dm_mr";
	const struct dm_memory *m = dm->memory;
	int err = pd_use(pd, call);

	if (!err)
		err = mr_access_check(a->access, ACCESS, call);
	if (err)
		return err;
	if (!fork_is_ours(dm->epoch))
		return refuse(EIO, "%s: DM 0x%x was made before fork(); allocate in the child",
			      call, m->handle);
	if (!(a->access & IBV_ACCESS_ZERO_BASED))
		return refuse(EINVAL,
			      "%s: access 0x%x on DM 0x%x; device memory has no address, so "
			      "IBV_ACCESS_ZERO_BASED is needed",
			      call, a->access, m->handle);
	if (a->len > m->len || a->iova > m->len - a->len)
		return refuse(EINVAL,
			      "%s: %" PRIu64 " B at offset %" PRIu64
			      " reach out of DM 0x%x of %" PRIu64 " B; stay within",
			      call, a->len, a->iova, m->handle, m->len);
	if (pd->ctx->root != dm->ctx->root)
		return refuse(EINVAL,
			      "%s: PD 0x%x is of another context than DM 0x%x; use those of one",
			      call, pd->pdn, m->handle);
	return 0;
}

static void region_leaves(struct mr *mr)
{
	struct dm_memory *m = mr->behind;

	fetch_sub_acq_rel(&m->regions, 1);
	leave(m);
}

/* False: the device memory is being freed. Takes no lock. */
static bool region_enters(struct dm_memory *m)
{
	uint32_t n = load_relaxed(&m->regions);

	do
		if (n & GONE)
			return false;
	while (!cas_acq_rel(&m->regions, &n, n + 1));
	fetch_add_relaxed(&m->names, 1);
	return true;
}

int dm_register(struct pd *pd, struct dm *dm, const struct mr_attr *attr, struct mr **out)
{
	struct dm_memory *m = dm->memory;
	struct mr like = { .kind = MR_DM,
			   .ib.length = attr->len,
			   .base = (uintptr_t)m->p + attr->iova,
			   .access = mr_rights(attr->access),
			   .behind = m,
			   .release = region_leaves };
	struct key_entry e = { .pdn = pd->pdn,
			       .access = like.access,
			       .flags = KEY_DIRECT,
			       .len = attr->len,
			       .addr = like.base };
	int err = register_check(pd, dm, attr);

	if (err)
		return err;
	if (!region_enters(m))
		return refuse(EINVAL,
			      "ibv_reg_dm_mr: DM 0x%x was freed by another of its names; allocate "
			      "another",
			      m->handle);
	err = mr_publish(pd, &like, &e, "ibv_reg_dm_mr", out);
	if (err)
		region_leaves(&like);
	return err;
}

static struct dm_memory *find(struct context_objects *o, uint32_t handle)
{
	struct dm_memory *found = NULL;
	struct list *at;

	pthread_mutex_lock(&o->lock);
	list_for_each(at, &o->dms)
	{
		struct dm_memory *m = container_of(at, struct dm_memory, node);

		if (m->handle == handle)
			found = m;
	}
	if (found)
		fetch_add_relaxed(&found->names, 1);
	pthread_mutex_unlock(&o->lock);
	return found;
}

int dm_import(struct context *ctx, uint32_t handle, struct dm **out)
{
	int err = context_use(ctx, "ibv_import_dm");
	struct dm_memory *m;

	if (err)
		return err;
	m = find(&ctx->root->objects, handle);
	if (!m)
		return refuse(EINVAL,
			      "ibv_import_dm: no device memory of this device file has the handle "
			      "0x%x; pass ibv_dm.handle of one that lives",
			      handle);
	*out = name_new(ctx, m);
	if (!*out)
		return refuse(ENOMEM, "ibv_import_dm: no memory; raise the limit (ulimit -v)");
	return 0;
}

void dm_unimport(struct dm *dm)
{
	name_free(dm);
}
