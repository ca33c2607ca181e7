// SPDX-License-Identifier: MIT
/* Buffers that the library allocates, and the registration of any kind of memory by one call:
 * ibv_alloc_buf(3), ibv_reg_mr_ex(3). */
#include "hca/alive.h"
#include "hca/buffer.h"
#include "obs/explain.h"
#include "verbs/export.h"
#include "verbs/newer.h"

EXPORT void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	struct buffer *b;
	int err = alive_check(ALIVE_PD, pd, "ibv_alloc_buf");

	if (!err)
		err = buffer_create(to_pd(pd), size, &b);
	if (err)
		return null_errno(err);
	*buf = alive_made(ALIVE_BUFFER, b);
	return buffer_memory(b);
}

EXPORT void ibv_free_buf(struct ibv_buf *buf)
{
	struct alive_end end;

	if (!buf || alive_take(ALIVE_BUFFER, buf, "ibv_free_buf", &end))
		return;
	buffer_destroy(to_buffer(buf));
	alive_left(&end, 0);
}

EXPORT int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	int err = alive_check(ALIVE_BUFFER, buf, "ibv_export_buf_dmabuf_fd");

	if (!err)
		err = refuse(ENODATA, "ibv_export_buf_dmabuf_fd: the buffer is ordinary memory; no "
				      "dma-buf is behind it");
	return minus1_errno(err);
}

EXPORT struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
				     size_t length, int access)
{
	struct mr_attr attr = { addr, length, (uintptr_t)addr, (unsigned int)access };
	static const char call[] = "ibv_reg_buf_mr";
	struct mr *mr;
	int err = alive_check(ALIVE_PD, pd, call);

	if (!err)
		err = alive_check(ALIVE_BUFFER, buf, call);
	if (!err)
		err = buffer_register(to_pd(pd), to_buffer(buf), &attr, call, &mr);
	return err ? null_errno(err) : alive_made(ALIVE_MR, &mr->ib);
}

/* Which members go together. */
static int check_mask(uint64_t mask)
{
	static const char call[] = "ibv_reg_mr_ex";
	uint64_t unknown = mask & ~(uint64_t)(2 * REG_BUF - 1);

	if (unknown)
		return refuse(EINVAL,
			      "%s: comp_mask 0x%llx has unknown bits; use IBV_REG_MR_MASK_*", call,
			      (unsigned long long)unknown);
	if (mask & REG_DMAH)
		return refuse(
			EOPNOTSUPP,
			"%s: IBV_REG_MR_MASK_DMAH: this device has no DMA handles; leave it out",
			call);
	if (!(mask & REG_ADDR) == !(mask & REG_FD))
		return refuse(EINVAL,
			      "%s: comp_mask needs one of IBV_REG_MR_MASK_ADDR and "
			      "IBV_REG_MR_MASK_FD, and not both; set one",
			      call);
	if ((mask & REG_FD_OFFSET) && !(mask & REG_FD))
		return refuse(EINVAL,
			      "%s: IBV_REG_MR_MASK_FD_OFFSET goes with IBV_REG_MR_MASK_FD only; "
			      "leave it out",
			      call);
	if ((mask & REG_BUF) && !(mask & REG_ADDR))
		return refuse(
			EINVAL,
			"%s: IBV_REG_MR_MASK_BUF goes with IBV_REG_MR_MASK_ADDR only; leave it out",
			call);
	return 0;
}

EXPORT struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *ib, struct ibv_mr_init_attr *init)
{
	const struct reg_attr *a = (const struct reg_attr *)init;
	uint64_t offset = a->comp_mask & REG_FD_OFFSET ? a->fd_offset : 0;
	struct mr_attr attr = { a->addr, a->length, a->iova, (unsigned int)a->access };
	int err = alive_check(ALIVE_PD, ib, "ibv_reg_mr_ex");
	struct pd *pd = to_pd(ib);
	struct mr *mr;

	err = err ? err : check_mask(a->comp_mask);
	if (!err && (a->comp_mask & REG_BUF))
		err = alive_check(ALIVE_BUFFER, a->buf, "ibv_reg_mr_ex");
	if (!(a->comp_mask & REG_IOVA))
		attr.iova = a->comp_mask & REG_FD ? offset : (uintptr_t)a->addr;
	if (!err && (a->comp_mask & REG_FD))
		err = mr_create_dmabuf(pd, &attr, offset, a->fd, &mr);
	else if (!err && (a->comp_mask & REG_BUF))
		err = buffer_register(pd, to_buffer(a->buf), &attr, "ibv_reg_mr_ex", &mr);
	else if (!err)
		err = mr_create(pd, &attr, &mr);
	return err ? null_errno(err) : alive_made(ALIVE_MR, &mr->ib);
}
