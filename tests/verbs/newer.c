// SPDX-License-Identifier: MIT
/* Calls of releases after rdma-core 44, as a program that was built there makes them: buffers of
 * the library, registration of any memory by one call, a port's speed, words for opcodes. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

/* What the header of such a release declares. */
struct ibv_buf;
struct ibv_mr_init_attr;

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

enum {
	REG_IOVA = 1 << 0,
	REG_ADDR = 1 << 1,
	REG_FD = 1 << 2,
	REG_FD_OFFSET = 1 << 3,
	REG_DMAH = 1 << 4,
	REG_BUF = 1 << 5,
};

struct reg_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};

static struct duo duo;
static struct ibv_context *ctx;
static struct ibv_pd *pd;

static void begin(void)
{
	struct duo_opts o = { .qp.type = IBV_QPT_RC, .together = true };

	duo_open(&duo, &o);
	ctx = duo.near.dev.ctx;
	pd = ibv_alloc_pd(ctx);
	want(pd != NULL);
}

static struct ibv_mr *reg_ex(const struct reg_attr *a)
{
	errno = 0;
	return ibv_reg_mr_ex(pd, (struct ibv_mr_init_attr *)a);
}

static void buffers(int arg)
{
	struct ibv_buf *buf = NULL;
	struct ibv_pd *other;
	struct ibv_mr *mr;
	uint8_t *p;

	(void)arg;
	begin();
	other = ibv_alloc_pd(ctx);
	want(!ibv_alloc_buf(pd, 0, &buf) && errno == EINVAL);
	p = ibv_alloc_buf(pd, 10000, &buf);
	want(p && buf && !((uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE)));
	memset(p, 7, 10000);
	mr = ibv_reg_buf_mr(pd, buf, p + 5000, 5000, IBV_ACCESS_LOCAL_WRITE);
	want(mr && mr->addr == p + 5000 && mr->length == 5000);
	want_eq(ibv_dereg_mr(mr), 0);
	want(!ibv_reg_buf_mr(pd, buf, p + 5000, 5001, 0) && errno == EINVAL);
	want(!ibv_reg_buf_mr(pd, buf, p - 1, 10, 0) && errno == EINVAL);
	want(!ibv_reg_buf_mr(pd, buf, p + 1, SIZE_MAX, 0) && errno == EINVAL);
	want(!ibv_reg_buf_mr(other, buf, p, 10, 0) && errno == EINVAL);
	errno = 0;
	want(ibv_export_buf_dmabuf_fd(buf) == -1 && errno == ENODATA);
	want_eq(ibv_dealloc_pd(pd), EBUSY);
	ibv_free_buf(buf);
	ibv_free_buf(buf); /* again: it is said, and nothing happens */
	want(ibv_export_buf_dmabuf_fd(buf) == -1 && errno == ENOENT);
	want(!ibv_reg_buf_mr(pd, buf, p, 10, 0) && errno == ENOENT);
	want_eq(ibv_dealloc_pd(pd), 0);
	want_eq(ibv_dealloc_pd(other), 0);
}

/* A parent domain whose memory need not be protected from the host's, in a confidential guest. */
static void unprotected(int arg)
{
	struct ibv_parent_domain_init_attr attr = { .comp_mask = 1 << 2 };
	struct ibv_pd *parent;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	void *p;

	(void)arg;
	begin();
	attr.pd = pd;
	parent = ibv_alloc_parent_domain(ctx, &attr);
	want(parent != NULL);
	p = ibv_alloc_buf(parent, 5000, &buf);
	want(p != NULL);
	mr = ibv_reg_buf_mr(parent, buf, p, 5000, IBV_ACCESS_LOCAL_WRITE);
	want(mr && mr->addr == p);
	want_eq(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
	want_eq(ibv_dealloc_pd(parent), 0);
	want_eq(ibv_dealloc_pd(pd), 0);
}

static void registration(int arg)
{
	static uint8_t memory[8192];
	struct reg_attr a = { .length = 4096, .access = IBV_ACCESS_LOCAL_WRITE, .addr = memory };
	struct ibv_buf *buf;
	struct ibv_mr *mr;

	(void)arg;
	begin();
	a.comp_mask = REG_ADDR;
	a.buf = (void *)(uintptr_t)0x5555; /* members that the mask does not name are not read */
	a.iova = a.fd_offset = 99;
	mr = reg_ex(&a);
	want(mr && mr->addr == memory && mr->length == 4096);
	want_eq(ibv_dereg_mr(mr), 0);
	a.comp_mask = REG_ADDR | REG_IOVA;
	a.iova = 0x10000 + (uintptr_t)memory % 4096;
	mr = reg_ex(&a);
	want(mr != NULL);
	want_eq(ibv_dereg_mr(mr), 0);

	a.addr = ibv_alloc_buf(pd, 4096, &buf);
	a.buf = buf;
	a.comp_mask = REG_ADDR | REG_BUF;
	mr = reg_ex(&a);
	want(mr && mr->addr == a.addr);
	want_eq(ibv_dereg_mr(mr), 0);
	a.length++;
	want(!reg_ex(&a) && errno == EINVAL);
	ibv_free_buf(buf);

	a.length = 4096;
	a.fd = memfd_create("newer", 0);
	a.comp_mask = REG_FD | REG_FD_OFFSET;
	a.fd_offset = 0;
	want(!reg_ex(&a) && errno == EINVAL); /* shorter than the region */
	want_eq(ftruncate(a.fd, 8192), 0);
	mr = reg_ex(&a); /* a memfd stands for a dma-buf */
	want(mr != NULL);
	want_eq(ibv_dereg_mr(mr), 0);
	close(a.fd);
}

static void masks(int arg)
{
	static const struct {
		uint64_t mask;
		int err;
	} wrong[] = {
		{ 0, EINVAL },
		{ REG_ADDR | REG_FD, EINVAL },
		{ REG_ADDR | REG_FD_OFFSET, EINVAL },
		{ REG_BUF, EINVAL },
		{ REG_BUF | REG_FD, EINVAL },
		{ REG_ADDR | 2 * REG_BUF, EINVAL },
		{ REG_ADDR | 1ULL << 63, EINVAL },
		{ REG_ADDR | REG_DMAH, EOPNOTSUPP },
	};
	static uint8_t memory[4096];

	(void)arg;
	begin();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct reg_attr a = { 4096, 0, wrong[i].mask, .addr = memory };

		want(!reg_ex(&a));
		want_eq(errno, wrong[i].err);
	}
}

static void port_and_words(int arg)
{
	const char *(*ibv_wr_opcode_str)(enum ibv_wr_opcode opcode);
	uint64_t speed = 0;

	(void)arg;
	begin();
	*(void **)&ibv_wr_opcode_str = dlvsym(RTLD_DEFAULT, "ibv_wr_opcode_str",
					      "IBVERBS_PRIVATE_65"); /* as a program of v65 */
	want(ibv_wr_opcode_str != NULL);
	want_eq(ibv_query_port_speed(ctx, 1, &speed), 0);
	want_eq(speed, 1000); /* 100 Gb/s, as width and speed of ibv_query_port() say */
	want_eq(ibv_query_port_speed(ctx, 2, &speed), EINVAL);
	want(!strcmp(ibv_wr_opcode_str(IBV_WR_RDMA_WRITE), "rdma-write"));
	want(!strcmp(ibv_wr_opcode_str(IBV_WR_DRIVER1), "driver1"));
	want(!strcmp(ibv_wr_opcode_str((enum ibv_wr_opcode)12), "unknown"));
	want(!strcmp(ibv_wr_opcode_str((enum ibv_wr_opcode) - 1), "unknown"));
}

static const struct test_case cases[] = {
	CASE(buffers), CASE(unprotected), CASE(registration), CASE(masks), CASE(port_and_words),
};

int main(void)
{
	return CASES_RUN(cases);
}
