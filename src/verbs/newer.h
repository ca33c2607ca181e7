// SPDX-License-Identifier: MIT
/* Calls and structures that headers newer than rdma-core 44 declare. Where the installed header has
 * them too, the compiler compares. */
#pragma once
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_buf;
struct ibv_mr_init_attr;

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

/* enum ibv_mr_init_attr_mask */
enum {
	REG_IOVA = 1 << 0,
	REG_ADDR = 1 << 1,
	REG_FD = 1 << 2,
	REG_FD_OFFSET = 1 << 3,
	REG_DMAH = 1 << 4,
	REG_BUF = 1 << 5,
};

/* struct ibv_mr_init_attr of rdma-core 65. Earlier ones end in front of buf; its bit tells. */
struct reg_attr {
	size_t length; /* bytes */
	int access; /* IBV_ACCESS_* */
	uint64_t comp_mask; /* REG_*: the members below that count */
	uint64_t iova;
	void *addr;
	int fd; /* of a dma-buf */
	uint64_t fd_offset; /* bytes */
	void *dmah;
	struct ibv_buf *buf;
};

#ifdef HAVE_MR_INIT_ATTR
#define SAME(field)                                                                                \
	(offsetof(struct ibv_mr_init_attr, field) == offsetof(struct reg_attr, field) &&           \
	 sizeof(((struct ibv_mr_init_attr *)0)->field) == sizeof(((struct reg_attr *)0)->field))
_Static_assert(SAME(length) && SAME(access) && SAME(comp_mask) && SAME(iova) && SAME(addr) &&
		       SAME(fd) && SAME(fd_offset) && SAME(dmah) && SAME(buf),
	       "members of the installed header");
#undef SAME
_Static_assert(sizeof(struct ibv_mr_init_attr) == sizeof(struct reg_attr),
	       "size of the installed header");
_Static_assert((int)IBV_REG_MR_MASK_IOVA == (int)REG_IOVA &&
		       (int)IBV_REG_MR_MASK_ADDR == (int)REG_ADDR &&
		       (int)IBV_REG_MR_MASK_FD == (int)REG_FD &&
		       (int)IBV_REG_MR_MASK_FD_OFFSET == (int)REG_FD_OFFSET &&
		       (int)IBV_REG_MR_MASK_DMAH == (int)REG_DMAH &&
		       (int)IBV_REG_MR_MASK_BUF == (int)REG_BUF,
	       "values of the installed header");
#endif
