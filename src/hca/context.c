// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hca/async_queue.h"
#include "hca/device.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "obs/leaks.h"
#include "util/barrier.h"
#include "util/fork.h"

#define CMD_FD_SIZE (1ULL << 40)

/* A sparse file: a program may dup it, map any part of it, and its inode names the context. Not
 * longer than RLIMIT_FSIZE: beyond, ftruncate would raise SIGXFSZ. */
static int cmd_fd_open(int *out)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	uint64_t size = CMD_FD_SIZE;
	int fd = memfd_create("softhca-context", MFD_CLOEXEC);

	if (fd < 0)
		return refuse(errno,
			      "ibv_open_device: no descriptor for the context (memfd_create); "
			      "raise RLIMIT_NOFILE or close some");
	getrlimit(RLIMIT_FSIZE, &limit);
	if (limit.rlim_cur < size)
		size = limit.rlim_cur;
	if (ftruncate(fd, (off_t)size)) {
		int err = errno;

		close(fd);
		return refuse(err,
			      "ibv_open_device: cmd_fd cannot be %llu B long; raise the limit of "
			      "file sizes (ulimit -f)",
			      (unsigned long long)size);
	}
	*out = fd;
	return 0;
}

static void list_context(struct context *ctx)
{
	struct hca *hca = ctx->hca;

	pthread_mutex_lock(&hca->contexts_lock);
	ctx->next = hca->contexts;
	hca->contexts = ctx;
	pthread_mutex_unlock(&hca->contexts_lock);
}

static void unlist_context(struct context *ctx)
{
	struct hca *hca = ctx->hca;

	pthread_mutex_lock(&hca->contexts_lock);
	for (struct context **at = &hca->contexts; *at; at = &(*at)->next) {
		if (*at != ctx)
			continue;
		*at = ctx->next;
		break;
	}
	pthread_mutex_unlock(&hca->contexts_lock);
}

static void objects_init(struct context *ctx)
{
	ctx->root = ctx;
	pthread_mutex_init(&ctx->objects.lock, NULL);
	list_init(&ctx->objects.pds);
	list_init(&ctx->objects.dms);
}

static void context_free(struct context *ctx)
{
	if (!ctx)
		return;
	if (ctx->root != ctx)
		context_put(ctx->root);
	pthread_mutex_destroy(&ctx->objects.lock);
	if (ctx->ib.context.cmd_fd >= 0)
		close(ctx->ib.context.cmd_fd);
	async_queue_destroy(ctx->async);
	pthread_mutex_destroy(&ctx->ib.context.mutex);
	free(ctx);
}

static struct context *context_new(struct hca *hca, struct ibv_device *dev)
{
	struct context *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->hca = hca;
	ctx->epoch = fork_epoch();
	ctx->refs = 1;
	ctx->ib.context.device = dev;
	ctx->ib.context.num_comp_vectors = LIMIT_COMP_VECTORS;
	ctx->ib.context.cmd_fd = ctx->ib.context.async_fd = -1;
	pthread_mutex_init(&ctx->ib.context.mutex, NULL);
	objects_init(ctx);
	return ctx;
}

/* The last steps of making a context; @fd stays the caller's when they fail. */
static int context_start(struct context *ctx, int fd)
{
	struct stat st;
	int err = async_queue_create(&ctx->async);

	if (err)
		return err;
	ctx->ib.context.async_fd = async_queue_fd(ctx->async);
	if (!fstat(fd, &st)) {
		ctx->dev = st.st_dev;
		ctx->ino = st.st_ino;
	}
	ctx->ib.context.cmd_fd = fd;
	list_context(ctx);
	return 0;
}

int context_create(struct hca *hca, struct ibv_device *dev, struct context **out)
{
	struct context *ctx = context_new(hca, dev);
	int fd = -1, err;

	if (!ctx)
		return refuse(
			ENOMEM,
			"ibv_open_device: no memory for a context; raise the limit (ulimit -v)");
	err = cmd_fd_open(&fd);
	if (!err) {
		err = context_start(ctx, fd);
		if (err)
			close(fd);
	}
	if (err) {
		context_free(ctx);
		return err;
	}
	*out = ctx;
	return 0;
}

int context_import(struct context *orig, int fd, struct context **out)
{
	struct context *ctx = context_new(orig->hca, orig->ib.context.device);
	int err;

	if (!ctx)
		return refuse(
			ENOMEM,
			"ibv_import_device: no memory for a context; raise the limit (ulimit -v)");
	ctx->root = orig->root;
	context_get(ctx->root);
	err = context_start(ctx, fd);
	if (err) {
		context_free(ctx);
		return err;
	}
	*out = ctx;
	return 0;
}

struct context *context_find(struct hca *hca, uint64_t dev, uint64_t ino)
{
	struct context *ctx;

	pthread_mutex_lock(&hca->contexts_lock);
	ctx = hca->contexts;
	while (ctx && (ctx->dev != dev || ctx->ino != ino))
		ctx = ctx->next;
	if (ctx)
		context_get(ctx);
	pthread_mutex_unlock(&hca->contexts_lock);
	return ctx;
}

void context_get(struct context *ctx)
{
	fetch_add_relaxed(&ctx->refs, 1);
}

void context_put(struct context *ctx)
{
	if (fetch_sub_acq_rel(&ctx->refs, 1) == 1)
		context_free(ctx);
}

void context_destroy(struct context *ctx)
{
	bool ours = fork_is_ours(ctx->epoch);

	if (ours) {
		unlist_context(ctx);
		leaks_closed(&ctx->ib.context, ctx->hca->name);
	}
	store_release(&ctx->closed, true); /* pairs with context_use() */
	if (ours) /* an inherited queue's lock may never be free; context_free() closes it */
		async_queue_close(ctx->async);
	close(ctx->ib.context.cmd_fd);
	ctx->ib.context.cmd_fd = -1;
	context_put(ctx);
}

/* The new queue's descriptor takes the number that the program knows; the parent keeps its file. */
static int renew_async(struct context *ctx)
{
	struct async_queue *q;
	int fd = ctx->ib.context.async_fd, flags = fcntl(fd, F_GETFL), err;

	err = async_queue_create(&q); /* the old one stays: its lock may never be free */
	if (err)
		return err;
	err = async_queue_move(q, fd, flags);
	if (err) {
		async_queue_destroy(q);
		return err;
	}
	ctx->async = q;
	return 0;
}

/* Several threads of the child may call at once: the one that sets `moving` moves the context. */
static int move_to_child(struct context *ctx, const char *call)
{
	uint32_t epoch, was = load_relaxed(&ctx->moving);
	struct hca *hca;
	int err;

	if (!ctx->hca->renew)
		return refuse(EIO,
			      "%s: the context was opened before fork(); open the device again",
			      call);
	err = ctx->hca->renew(ctx->hca, &hca);
	if (err)
		return err;
	epoch = fork_epoch();
	if (was == epoch || !cas_acq_rel(&ctx->moving, &was, epoch)) {
		while (load_acquire(&ctx->epoch) != epoch && load_acquire(&ctx->moving) == epoch)
			sched_yield(); /* (A), (B) */
		return context_use(ctx, call);
	}
	err = renew_async(ctx);
	if (err) {
		store_release(&ctx->moving, 0); /* (B) */
		return err;
	}
	ctx->hca = hca;
	objects_init(ctx); /* inherited objects are not imported; their lock may never be free */
	list_context(ctx);
	store_release(&ctx->epoch, epoch); /* (A) */
	return 0;
}

int context_use(struct context *ctx, const char *call)
{
	if (load_acquire(&ctx->closed)) /* pairs with context_destroy() */
		return refuse(EIO,
			      "%s: the device was closed (ibv_close_device); destroy its objects "
			      "before, or open it again",
			      call);
	if (unlikely(!fork_is_ours(load_acquire(&ctx->epoch)))) /* (A) in move_to_child() */
		return move_to_child(ctx, call);
	return 0;
}

void device_event(struct hca *hca, enum ibv_event_type type)
{
	pthread_mutex_lock(&hca->contexts_lock);
	for (struct context *ctx = hca->contexts; ctx; ctx = ctx->next)
		async_queue_push(ctx->async, type, NULL, false);
	pthread_mutex_unlock(&hca->contexts_lock);
}
