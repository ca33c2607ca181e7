// SPDX-License-Identifier: MIT
#include "driver/dcq.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "driver/arms.h"
#include "driver/cq_readers.h"
#include "driver/ring_memory.h"
#include "engine/doorbell.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/be.h"
#include "util/fork.h"

/* The wc_flags whose readers exist. */
#define WC_FLAGS                                                                                   \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |                    \
	 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |                         \
	 IBV_WC_EX_WITH_DLID_PATH_BITS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                     \
	 IBV_WC_EX_WITH_TM_INFO | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK |                  \
	 IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG)
#define WC_TIMES                                                                                   \
	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define COMP_MASK    (IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)
#define CREATE_FLAGS (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)

static int check_attr(const struct ibv_cq_init_attr_ex *a)
{
	if (!a->cqe || a->cqe > LIMIT_CQE)
		return refuse(EINVAL,
			      "ibv_create_cq: cqe %u is not in 1..%d (max_cqe); ask for fewer",
			      a->cqe, LIMIT_CQE);
	if (a->comp_vector >= LIMIT_COMP_VECTORS)
		return refuse(EINVAL,
			      "ibv_create_cq: comp_vector %u, the device has %d "
			      "(num_comp_vectors); use 0..%d",
			      a->comp_vector, LIMIT_COMP_VECTORS, LIMIT_COMP_VECTORS - 1);
	if (a->wc_flags & ~(uint64_t)WC_FLAGS)
		return refuse(EOPNOTSUPP,
			      "ibv_create_cq_ex: wc_flags 0x%llx, of which 0x%llx do not work on "
			      "this device; leave them out",
			      (unsigned long long)a->wc_flags,
			      (unsigned long long)(a->wc_flags & ~(uint64_t)WC_FLAGS));
	if (a->comp_mask & ~(uint32_t)COMP_MASK)
		return refuse(EOPNOTSUPP,
			      "ibv_create_cq_ex: comp_mask 0x%x, of which 0x%x does not work on "
			      "this device; leave it out",
			      a->comp_mask, a->comp_mask & ~(uint32_t)COMP_MASK);
	if ((a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && (a->flags & ~(uint32_t)CREATE_FLAGS))
		return refuse(EOPNOTSUPP,
			      "ibv_create_cq_ex: flags 0x%x, of which 0x%x are unknown; leave them "
			      "out",
			      a->flags, a->flags & ~(uint32_t)CREATE_FLAGS);
	return 0;
}

static bool has_flag(const struct ibv_cq_init_attr_ex *a, uint32_t flag)
{
	return (a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && (a->flags & flag);
}

static uint32_t ring_entries(uint32_t cqe)
{
	return 1U << (32 - __builtin_clz(cqe)); /* a power of two above cqe: one entry stays free */
}

static void dcq_free(struct dcq *cq)
{
	if (!cq)
		return;
	ring_memory_free(&cq->memory);
	ring_memory_free(&cq->lent_record);
	ring_pages_free(&cq->pages);
	if (cq->pd)
		pd_put(cq->pd);
	free(cq);
}

static void fill_public(struct dcq *cq, const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq *ib = (struct ibv_cq *)&cq->ib;

	ib->context = &cq->ctx->ib.context;
	ib->channel = attr->channel;
	ib->cq_context = attr->cq_context;
	ib->handle = cq->dev->cqn;
	ib->cqe = cq->cnt - 1;
	pthread_mutex_init(&ib->mutex, NULL);
	pthread_cond_init(&ib->cond, NULL);
	cq->wc_flags = attr->wc_flags;
	cq->single = has_flag(attr, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	cq_readers_attach(cq);
}

/* The parent domain whose memory functions make the ring, if the program has given one. */
static int take_domain(struct dcq *cq, const struct ibv_cq_init_attr_ex *attr)
{
	struct pd *pd = to_pd(attr->parent_domain);
	int err;

	if (!(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD))
		return 0;
	if (!pd || pd->kind != PD_PARENT || pd->ctx->root != cq->ctx->root)
		return refuse(EINVAL,
			      "ibv_create_cq_ex: parent_domain is %s; give one of "
			      "ibv_alloc_parent_domain() on this device",
			      !pd		      ? "NULL"
			      : pd->kind != PD_PARENT ? "a plain PD"
						      : "of another context");
	err = pd_use(pd, "ibv_create_cq_ex");
	if (err)
		return err;
	pd_get(pd);
	cq->pd = pd;
	return 0;
}

/* The environment is read each time, as mlx5's driver does. */
static int choose_size(const struct dcq_form *form, size_t *out)
{
	const char *text = form->cqe_size ? NULL : secure_getenv("MLX5_CQE_SIZE");

	*out = form->cqe_size ? form->cqe_size : sizeof(struct mlx5_cqe64);
	if (!text || strcmp(text, "64") == 0)
		return 0;
	if (strcmp(text, "128"))
		return refuse(
			EINVAL,
			"ibv_create_cq: the environment's MLX5_CQE_SIZE is \"%.20s\"; entries "
			"have 64 or 128 B",
			text);
	*out = 128;
	return 0;
}

static int ring_alloc(const struct dcq *cq, const char *call, uint32_t cnt, struct ring_memory *out)
{
	size_t bytes = cnt * cq->cqe_size;

	return ring_memory_alloc_on(cq->ctx, cq->pd, MLX5DV_RES_TYPE_CQ, bytes, out)
		       ? refuse_memory(call, bytes)
		       : 0;
}

static int make_ring(struct dcq *cq, uint32_t cnt)
{
	int err = ring_alloc(cq, "ibv_create_cq", cnt, &cq->memory);

	if (err)
		return err;
	dcq_ring_set(cq, cq->memory.at, cnt);
	cqe_init(cq->buf, cnt, (uint32_t)cq->cqe_size);
	return 0;
}

int dcq_create(struct context *ctx, const struct ibv_cq_init_attr_ex *attr,
	       const struct dcq_form *form, struct dcq **out)
{
	int err = check_attr(attr);
	struct dcq *cq;
	size_t size;

	err = err ? err : choose_size(form, &size);
	if (err)
		return err;
	cq = aligned_alloc(64, sizeof(*cq));
	if (!cq)
		return refuse_memory("ibv_create_cq", sizeof(*cq));
	memset(cq, 0, sizeof(*cq));
	cq->ctx = ctx;
	cq->epoch = fork_epoch();
	cq->cqe_size = size;
	cq->dbrec = cq->record;
	err = take_domain(cq, attr);
	err = err ? err : ring_memory_record(ctx, cq->pd, &cq->dbrec, &cq->lent_record);
	err = err ? err : make_ring(cq, ring_entries(attr->cqe));
	if (err)
		goto fail;
	spin_init(&cq->lock);
	struct cq_attr dev = {
		.buf = cq->buf,
		.cnt = cq->cnt,
		.cqe_size = (uint32_t)size,
		.dbrec = cq->dbrec,
		.channel = (struct comp_channel *)attr->channel,
		.ignore_overrun = has_flag(attr, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN),
		.extras = (attr->wc_flags & WC_TIMES ? CQ_STAMPED : 0) |
			  (form->padded ? CQ_PADDED : 0),
		.compressed = form->compressed,
		.user = &cq->ib,
	};
	err = cq_create(ctx, &dev, &cq->dev);
	if (err)
		goto fail;
	cq->compressed = cq->dev->run ? form->compressed : 0;
	fill_public(cq, attr);
	*out = cq;
	return 0;
fail:
	dcq_free(cq);
	return err;
}

/* cq_destroy() has dropped the events that were queued. */
static void settle_events(struct dcq *cq)
{
	struct account comp = dcq_ring_comp(cq), async = dcq_ring_async(cq);

	account_settle(&comp);
	account_settle(&async);
}

int dcq_destroy(struct dcq *cq)
{
	bool ours = fork_is_ours(cq->epoch), laid_open = ours && unrung_is(&cq->unrung);
	int err;

	if (laid_open) {
		unrung_del(&cq->unrung);
		arms_del(cq);
	}
	err = cq_destroy(cq->dev);
	if (err && laid_open) {
		unrung_add(&cq->unrung, cq->unrung.look);
		arms_add(cq);
	}
	if (err)
		return err;
	if (ours)
		settle_events(cq);
	dcq_free(cq);
	return 0;
}

/* Puts @m, of @cnt entries, in the ring's place, and the old memory in *m. Under the lock, since
 * other threads may resize the CQ or lay it open. */
static int switch_ring(struct dcq *cq, struct ring_memory *m, uint32_t cnt, int cqe)
{
	const struct cqe_ring ring = { m->at, cnt, (uint32_t)cq->cqe_size };
	struct ring_memory old = cq->memory;
	uint32_t unread;

	if (cq->opening || cq->told)
		return refuse(EINVAL,
			      "ibv_resize_cq: the program reads the ring of CQ 0x%x itself "
			      "(mlx5dv_init_obj); make another CQ",
			      cq->dev->cqn);
	/* By the record the device knows what ibv_next_poll() has read, also in the new ring. */
	dcq_ring_publish(cq);
	unread = cq_switch(cq->dev, &ring, cq->dbrec, cq->ci);
	if (unread >= cnt)
		return refuse(EINVAL,
			      "ibv_resize_cq: cqe %d is fewer than the %u completions that wait "
			      "to be polled on CQ 0x%x; poll them first",
			      cqe, unread, cq->dev->cqn);
	dcq_ring_set(cq, m->at, cnt);
	((struct ibv_cq *)&cq->ib)->cqe = cnt - 1;
	cq->memory = *m;
	*m = old;
	return 0;
}

int dcq_resize(struct dcq *cq, int cqe)
{
	struct ring_memory memory;
	uint32_t cnt;
	int err;

	if (!fork_is_ours(cq->epoch))
		return refuse(EIO, "ibv_resize_cq: CQ 0x%x was made before fork(); make a new one",
			      cq->dev->cqn);
	if (cqe < 1 || cqe > LIMIT_CQE)
		return refuse(EINVAL,
			      "ibv_resize_cq: cqe %d is not in 1..%d (max_cqe); ask for a size "
			      "in it",
			      cqe, LIMIT_CQE);
	cnt = ring_entries(cqe);
	err = ring_alloc(cq, "ibv_resize_cq", cnt, &memory);
	if (err)
		return err;
	cqe_init(memory.at, cnt, (uint32_t)cq->cqe_size);
	progress(); /* entries of work that is already done count */
	dcq_ring_lock(cq);
	err = switch_ring(cq, &memory, cnt, cqe);
	dcq_ring_unlock(cq);
	ring_memory_free(&memory);
	return err;
}

int dcq_modify(struct dcq *cq, const struct ibv_modify_cq_attr *attr)
{
	if (!fork_is_ours(cq->epoch))
		return refuse(EIO, "ibv_modify_cq: CQ 0x%x was made before fork(); make a new one",
			      cq->dev->cqn);
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return refuse(EINVAL,
			      "ibv_modify_cq: attr_mask 0x%x; IBV_CQ_ATTR_MODERATE (0x%x) is all "
			      "that can change",
			      attr->attr_mask, IBV_CQ_ATTR_MODERATE);
	if (attr->attr_mask & IBV_CQ_ATTR_MODERATE)
		cq_moderate(cq->dev, attr->moderate.cq_count, attr->moderate.cq_period);
	return 0;
}
