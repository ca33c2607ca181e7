// SPDX-License-Identifier: MIT
/* Mkeys: lists and interleaved patterns set up by work requests of both APIs and by raw WQEs, used
 * as lkey and rkey between two processes and within one; what is refused, where and how; and that
 * an mkey which was changed, freed or destroyed allows nothing that it allowed before. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum { OTHER_PROCESS, THIS_PROCESS };
enum { LIST, INTERLEAVED, NEW_LIST, NEW_INTERLEAVED, RAW_LIST, LIST_IN_MEMORY, KINDS };
enum {
	INDIRECT = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	REMOTE_INVALIDATE = MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE
};
enum {
	ENTRIES = 3,
	TIMES = 5,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};

/* Of each side's memory: an interleaved pattern takes as many bytes after each @stride. */
static const struct entry {
	uint32_t off, len, stride;
} entries[ENTRIES] = { { 9000, 700, 800 }, { 101, 1, 2 }, { 20000, 1000, 1000 } };

static struct duo duo;

static bool repeats(int kind)
{
	return kind == INTERLEAVED || kind == NEW_INTERLEAVED;
}

static uint32_t bytes_of(int kind)
{
	return 1701 * (repeats(kind) ? TIMES : 1);
}

/* Where byte @i of an mkey lies in its side's memory */
static uint32_t place_of(int kind, uint32_t i)
{
	uint32_t time = repeats(kind) ? i / 1701 : 0, at = i - time * 1701;
	const struct entry *e = entries;

	for (; at >= e->len; e++)
		at -= e->len;
	return e->off + time * e->stride + at;
}

static void begin(int where)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC,
				      .cap = { 16, 16, 4, 4, 256 },
				      .send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_LOCAL_INV },
			      .together = where == THIS_PROCESS };

	said_begin();
	duo_open(&duo, &o);
}

static struct mlx5dv_qp_ex *dv_of(const struct side *s)
{
	return mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_to_qp_ex(s->ep.qp));
}

static struct ibv_qp_ex *start(const struct side *s)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(s->ep.qp);

	ibv_wr_start(ex);
	ex->wr_id = 77;
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	return ex;
}

static struct ibv_wc completed(const struct side *s)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	want(peer_poll(s->ep.scq, &wc, 10000));
	return wc;
}

static void done(const struct side *s)
{
	struct ibv_wc wc = completed(s);

	want_eq(wc.status, IBV_WC_SUCCESS);
	want_eq(wc.opcode, IBV_WC_DRIVER1);
	want_eq(wc.wr_id, 77);
}

static struct mlx5dv_mkey *create(const struct side *s, uint32_t flags)
{
	struct mlx5dv_mkey_init_attr a = { s->dev.pd, flags, ENTRIES + 1 };
	struct mlx5dv_mkey *m = mlx5dv_create_mkey(&a);

	want(m);
	want_eq(a.max_entries, 4);
	want_eq(m->lkey, m->rkey);
	return m;
}

static void sges(const struct side *s, struct ibv_sge *sg)
{
	for (unsigned int i = 0; i < ENTRIES; i++)
		sg[i] = (struct ibv_sge){ (uintptr_t)s->mem + entries[i].off, entries[i].len,
					  s->mr->lkey };
}

static void pattern(const struct side *s, struct mlx5dv_mr_interleaved *p)
{
	for (unsigned int i = 0; i < ENTRIES; i++)
		p[i] = (struct mlx5dv_mr_interleaved){ (uintptr_t)s->mem + entries[i].off,
						       entries[i].len,
						       entries[i].stride - entries[i].len,
						       s->mr->lkey };
}

/* @n entries as they stand in a work request or in memory */
static void write_list(struct mlx5_wqe_umr_klm_seg *to, const struct ibv_sge *sg, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		to[i].byte_count = htobe32(sg[i].length);
		to[i].mkey = htobe32(sg[i].lkey);
		to[i].address = htobe64(sg[i].addr);
	}
}

/* Where a list stands that is not inline: behind what the mkeys cover */
static struct mlx5_wqe_umr_klm_seg *away(const struct side *s)
{
	return (void *)(s->mem + 32768);
}

/* The list of sges(), as a program writes it that knows the header alone: inline, or in memory */
static void raw_list(const struct side *s, const struct mlx5dv_mkey *m, unsigned int access,
		     bool in_memory)
{
	uint8_t wqe[(1 + 3 + 4 + 4) * 16] __attribute__((aligned(64))) = { 0 };
	struct mlx5_wqe_umr_ctrl_seg *umr = (void *)(wqe + 16);
	struct mlx5_wqe_mkey_context_seg *ctx = (void *)(umr + 1);
	uint64_t mask = MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR |
			MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE |
			MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ |
			MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE |
			MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE;
	struct ibv_sge sg[ENTRIES];

	mlx5dv_set_ctrl_seg((void *)wqe, 0, MLX5_OPCODE_UMR, 0, 0, MLX5_WQE_CTRL_CQ_UPDATE,
			    in_memory ? 9 : 12, 0, htobe32(m->lkey));
	umr->flags = in_memory ? 0 : MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	umr->klm_octowords = htobe16(4);
	umr->mkey_mask = htobe64(mask);
	ctx->access_flags = (uint8_t)(4 | (access & IBV_ACCESS_LOCAL_WRITE ? 8 : 0) |
				      (access & IBV_ACCESS_REMOTE_READ ? 16 : 0) |
				      (access & IBV_ACCESS_REMOTE_WRITE ? 32 : 0));
	ctx->qpn_mkey = htobe32(0xffffff00 | (m->lkey & 0xff));
	ctx->len = htobe64(bytes_of(RAW_LIST));
	sges(s, sg);
	write_list(in_memory ? away(s) : &ctx->inseg[0].klm, sg, ENTRIES);
	if (in_memory)
		mlx5dv_set_data_seg((void *)(ctx + 1), 4 * sizeof(*away(s)), s->mr->lkey,
				    (uintptr_t)away(s));
	mlx5dv_wr_raw_wqe(dv_of(s), wqe);
}

static void set_up(const struct side *s, struct mlx5dv_mkey *m, int kind, unsigned int access)
{
	struct ibv_qp_ex *ex = start(s);
	struct mlx5dv_qp_ex *dv = dv_of(s);
	struct mlx5dv_mkey_conf_attr none = { 0 };
	struct mlx5dv_mr_interleaved p[ENTRIES];
	struct ibv_sge sg[ENTRIES];

	sges(s, sg);
	pattern(s, p);
	if (kind == LIST)
		mlx5dv_wr_mr_list(dv, m, access, ENTRIES, sg);
	else if (kind == INTERLEAVED)
		mlx5dv_wr_mr_interleaved(dv, m, access, TIMES, ENTRIES, p);
	else if (kind == RAW_LIST || kind == LIST_IN_MEMORY)
		raw_list(s, m, access, kind == LIST_IN_MEMORY);
	else
		mlx5dv_wr_mkey_configure(dv, m, 2, &none);
	if (kind == NEW_LIST) {
		mlx5dv_wr_set_mkey_layout_list(dv, ENTRIES, sg);
		mlx5dv_wr_set_mkey_access_flags(dv, access);
	} else if (kind == NEW_INTERLEAVED) {
		mlx5dv_wr_set_mkey_access_flags(dv, access);
		mlx5dv_wr_set_mkey_layout_interleaved(dv, TIMES, ENTRIES, p);
	}
	want_eq(ibv_wr_complete(ex), 0);
	if (kind == RAW_LIST || kind == LIST_IN_MEMORY)
		want_eq(completed(s).status, IBV_WC_SUCCESS);
	else
		done(s);
	memset(away(s), 0, 4 * sizeof(*away(s))); /* the device has its own copy */
}

/* The far side makes an mkey of kind @id with the rights @len and the flags @off. */
static struct duo_answer far_make(struct side *s, const struct duo_order *o)
{
	struct mlx5dv_mkey *m = create(s, o->off);

	s->own[0] = m;
	set_up(s, m, (int)o->id, o->len);
	return (struct duo_answer){ .found = true, .value = m->rkey };
}

static struct duo_answer far_forget(struct side *s, const struct duo_order *o)
{
	(void)o;
	want_eq(mlx5dv_destroy_mkey(s->own[0]), 0);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_local_inv(struct side *s, const struct duo_order *o)
{
	struct ibv_qp_ex *ex = start(s);

	(void)o;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_local_inv(ex, ((struct mlx5dv_mkey *)s->own[0])->rkey);
	want_eq(ibv_wr_complete(ex), 0);
	return (struct duo_answer){ .found = completed(s).status == IBV_WC_SUCCESS };
}

static void scatter(struct side *s, int kind, uint64_t seed)
{
	uint32_t n = bytes_of(kind);
	uint8_t *all = malloc(n);

	want(all);
	pattern_fill(all, n, seed, 0);
	for (uint32_t i = 0; i < n; i++)
		s->mem[place_of(kind, i)] = all[i];
	free(all);
}

/* The bytes of the mkey are the pattern, and the others are zeros. */
PEER_TOLD static bool holds(const struct side *s, int kind, uint64_t seed)
{
	uint32_t n = bytes_of(kind), other = 0;
	uint8_t *all = malloc(n), *memory = malloc(s->bytes);
	bool good;

	want(all && memory);
	for (size_t i = 0; i < s->bytes; i++)
		memory[i] = s->mem[i];
	for (uint32_t i = 0; i < n; i++) {
		all[i] = memory[place_of(kind, i)];
		memory[place_of(kind, i)] = 0;
	}
	for (size_t i = 0; i < s->bytes; i++)
		other |= memory[i];
	good = pattern_check(all, n, seed, 0) == n && !other;
	free(all);
	free(memory);
	return good;
}

static struct duo_answer far_recv(struct side *s, const struct duo_order *o)
{
	struct ibv_sge sg = { 0, o->len, (uint32_t)o->id };

	peer_recv(&s->ep, 4, &sg, 1);
	return (struct duo_answer){ .found = true };
}

/* Sets its mkey up again as a list. */
static struct duo_answer far_again(struct side *s, const struct duo_order *o)
{
	(void)o;
	set_up(s, s->own[0], LIST, ALL);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_scatter(struct side *s, const struct duo_order *o)
{
	scatter(s, (int)o->off, o->id);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_holds(struct side *s, const struct duo_order *o)
{
	return (struct duo_answer){ .found = holds(s, (int)o->off, o->id) };
}

static struct duo_answer far_clear(struct side *s, const struct duo_order *o)
{
	(void)o;
	memset(s->mem, 0, s->bytes);
	return (struct duo_answer){ .found = true };
}

static struct ibv_wc near_work(enum ibv_wr_opcode op, const struct mlx5dv_mkey *m, uint64_t off,
			       uint32_t len, uint32_t rkey)
{
	struct ibv_sge sg = { off, len, m->lkey };
	struct ibv_send_wr wr = { .opcode = op,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { off, rkey } };

	want_eq(duo_post(&duo, &wr), 0);
	return duo_wc(&duo);
}

static void clear(void)
{
	memset(duo.near.mem, 0, duo.near.bytes);
	duo_do(&duo, far_clear, 0, 0, 0);
}

/* Both sides have an mkey of each kind: a WRITE, a READ back into other memory. */
static void moves(int where)
{
	begin(where);
	for (int kind = 0; kind < KINDS; kind++) {
		struct mlx5dv_mkey *m = create(&duo.near, INDIRECT);
		uint32_t n = bytes_of(kind), rkey;

		peer_note("kind %d", kind);
		set_up(&duo.near, m, kind, ALL);
		rkey = (uint32_t)duo_do(&duo, far_make, INDIRECT, ALL, (uint64_t)kind).value;
		for (uint64_t seed = 1; seed < 4; seed++) {
			clear();
			scatter(&duo.near, kind, seed);
			want_eq(near_work(IBV_WR_RDMA_WRITE, m, 0, n, rkey).status, IBV_WC_SUCCESS);
			want(duo_do(&duo, far_holds, (uint32_t)kind, 0, seed).found);
			clear();
			duo_do(&duo, far_scatter, (uint32_t)kind, 0, seed + 9);
			want_eq(near_work(IBV_WR_RDMA_READ, m, 0, n, rkey).status, IBV_WC_SUCCESS);
			want(holds(&duo.near, kind, seed + 9));
		}
		want_eq(mlx5dv_destroy_mkey(m), 0);
		duo_do(&duo, far_forget, 0, 0, 0);
	}
}

/* The far side's receive is in its memory as it is, at offset 0. */
static void sent_from(int where)
{
	begin(where);
	for (int kind = 0; kind < KINDS; kind++) {
		struct mlx5dv_mkey *m = create(&duo.near, INDIRECT);
		uint32_t n = bytes_of(kind);

		set_up(&duo.near, m, kind, IBV_ACCESS_LOCAL_WRITE);
		clear();
		scatter(&duo.near, kind, 5);
		duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = n });
		want_eq(near_work(IBV_WR_SEND, m, 0, n, 0).status, IBV_WC_SUCCESS);
		want_eq(duo_far_wc(&duo).byte_len, n);
		want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = n, .id = 5 }).found);
		want_eq(mlx5dv_destroy_mkey(m), 0);
	}
}

static struct mlx5dv_mkey *near_list(unsigned int access)
{
	struct mlx5dv_mkey *m = create(&duo.near, INDIRECT);

	set_up(&duo.near, m, LIST, access);
	scatter(&duo.near, LIST, 1);
	return m;
}

static void completes(enum ibv_wc_status status)
{
	want_eq(completed(&duo.near).status, status);
	if (status != IBV_WC_SUCCESS)
		duo_reconnect(&duo);
}

static void list_of(struct mlx5dv_mkey *m, struct ibv_sge *sg, uint16_t n,
		    enum ibv_wc_status status)
{
	struct ibv_qp_ex *ex = start(&duo.near);

	mlx5dv_wr_mr_list(dv_of(&duo.near), m, ALL, n, sg);
	want_eq(ibv_wr_complete(ex), 0);
	completes(status);
}

/* Access rights and no list */
static void unlisted(struct mlx5dv_mkey *m, enum ibv_wc_status status)
{
	struct mlx5dv_mkey_conf_attr none = { 0 };
	struct ibv_qp_ex *ex = start(&duo.near);

	mlx5dv_wr_mkey_configure(dv_of(&duo.near), m, 1, &none);
	mlx5dv_wr_set_mkey_access_flags(dv_of(&duo.near), ALL);
	want_eq(ibv_wr_complete(ex), 0);
	completes(status);
}

/* A list of 8 bytes as a WQE of 12 segments with @flags, @klm octowords, and @mask besides */
static void raw_refused(const struct mlx5dv_mkey *m, uint8_t flags, uint16_t klm, uint64_t mask)
{
	uint8_t wqe[12 * 16] __attribute__((aligned(64))) = { 0 };
	struct mlx5_wqe_umr_ctrl_seg *umr = (void *)(wqe + 16);
	struct mlx5_wqe_mkey_context_seg *ctx = (void *)(umr + 1);
	struct ibv_qp_ex *ex = start(&duo.near);

	mlx5dv_set_ctrl_seg((void *)wqe, 0, MLX5_OPCODE_UMR, 0, 0, MLX5_WQE_CTRL_CQ_UPDATE, 12, 0,
			    htobe32(m->lkey));
	umr->flags = flags;
	umr->klm_octowords = htobe16(klm);
	umr->mkey_mask = htobe64(mask);
	ctx->len = htobe64(9);
	ctx->inseg[0].klm.byte_count = htobe32(8);
	ctx->inseg[0].klm.mkey = htobe32(duo.near.mr->lkey);
	ctx->inseg[0].klm.address = htobe64((uintptr_t)duo.near.mem);
	mlx5dv_wr_raw_wqe(dv_of(&duo.near), wqe);
	want_eq(ibv_wr_complete(ex), 0);
	completes(IBV_WC_MW_BIND_ERR);
}

static void writes(const struct mlx5dv_mkey *m, uint32_t rkey, enum ibv_wc_status status)
{
	want_eq(near_work(IBV_WR_RDMA_WRITE, m, 0, bytes_of(LIST), rkey).status, status);
	if (status != IBV_WC_SUCCESS)
		duo_reconnect(&duo);
}

/* A key that lacks the right, is free, was freed, or is gone: no byte is written. */
static void refused_to_peers(int where)
{
	struct mlx5dv_mkey *m;
	uint32_t rkey;

	begin(where);
	m = near_list(ALL);
	duo_do(&duo, far_clear, 0, 0, 0);
	rkey = (uint32_t)duo_do(&duo, far_make, INDIRECT, ALL & ~IBV_ACCESS_REMOTE_WRITE, LIST)
		       .value;
	writes(m, rkey, IBV_WC_REM_ACCESS_ERR);
	duo_do(&duo, far_forget, 0, 0, 0);
	writes(m, rkey, IBV_WC_REM_ACCESS_ERR);
	rkey = (uint32_t)duo_do(&duo, far_make, INDIRECT, ALL, NEW_LIST).value;
	writes(m, rkey ^ 1, IBV_WC_REM_ACCESS_ERR);
	want_eq(near_work(IBV_WR_RDMA_WRITE, m, 1, bytes_of(LIST), rkey).status,
		IBV_WC_LOC_PROT_ERR); /* one byte too many, on this side first */
	duo_reconnect(&duo);
	want(!duo_do(&duo, far_holds, LIST, 0, 1).found);
	writes(m, rkey, IBV_WC_SUCCESS);
	want(duo_do(&duo, far_holds, LIST, 0, 1).found);
	want(duo_do(&duo, far_local_inv, 0, 0, 0).found);
	duo_do(&duo, far_clear, 0, 0, 0);
	writes(m, rkey, IBV_WC_REM_ACCESS_ERR);
	if (where == THIS_PROCESS)
		said_want(SAID_NEAR,
			  "RDMA WRITE of 1701 B to 0x0 by QP 0x# refused by QP 0x#: rkey 0x%x is "
			  "an mkey that no UMR has set up, or that was invalidated; give the peer "
			  "an rkey of this QP's PD that covers and allows it",
			  rkey);
}

/* The far side receives into its mkey. */
static void received_into(int where)
{
	struct mlx5dv_mkey *m;

	begin(where);
	m = create(&duo.near, INDIRECT);
	for (int kind = 0; kind < KINDS; kind++) {
		uint32_t n = bytes_of(kind), key;

		/* the near side's is set up again without being freed */
		set_up(&duo.near, m, kind, IBV_ACCESS_LOCAL_WRITE);
		clear();
		key = (uint32_t)duo_do(&duo, far_make, INDIRECT, ALL, (uint64_t)kind).value;
		scatter(&duo.near, kind, 5);
		duo_do(&duo, far_recv, 0, n, key);
		want_eq(near_work(IBV_WR_SEND, m, 0, n, 0).status, IBV_WC_SUCCESS);
		want_eq(duo_far_wc(&duo).status, IBV_WC_SUCCESS);
		want(duo_do(&duo, far_holds, (uint32_t)kind, 0, 5).found);
		duo_do(&duo, far_forget, 0, 0, 0);
	}
}

static void send_inv(uint32_t key)
{
	struct ibv_sge sg = { (uintptr_t)duo.near.mem, 8, duo.near.mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_INV,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = key };

	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 8 });
	want_eq(duo_post(&duo, &wr), 0);
}

/* A peer may invalidate what was created for that; setting it up again is all that it needs. */
static void invalidated_by_peers(int where)
{
	struct mlx5dv_mkey *m;
	uint32_t key;

	begin(where);
	m = near_list(ALL);
	key = (uint32_t)duo_do(&duo, far_make, INDIRECT | REMOTE_INVALIDATE, ALL, LIST).value;
	writes(m, key, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++) {
		send_inv(key);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
		want_eq(duo_far_wc(&duo).wc_flags, IBV_WC_WITH_INV);
		duo_do(&duo, far_again, 0, 0, 0);
		writes(m, key, IBV_WC_SUCCESS);
	}
	send_inv(key);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	writes(m, key, IBV_WC_REM_ACCESS_ERR);
	duo_do(&duo, far_forget, 0, 0, 0);
	key = (uint32_t)duo_do(&duo, far_make, INDIRECT, ALL, LIST).value;
	send_inv(key);
	want(duo_wc(&duo).status != IBV_WC_SUCCESS);
	duo_reconnect(&duo);
	writes(m, key, IBV_WC_SUCCESS);
}

/* An mkey of parts of an mkey; a circle of two. */
static void nested(int where)
{
	struct mlx5dv_mkey *below, *above;
	struct ibv_sge sg[2];

	begin(where);
	below = near_list(IBV_ACCESS_LOCAL_WRITE);
	above = create(&duo.near, INDIRECT);
	sg[0] = (struct ibv_sge){ 850, 851, below->lkey }; /* its second half, then its first */
	sg[1] = (struct ibv_sge){ 0, 850, below->lkey };
	list_of(above, sg, 2, 0);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 1701 });
	want_eq(near_work(IBV_WR_SEND, above, 851, 850, 0).status, IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = 850, .id = 1 }).found);
	sg[1].lkey = above->lkey;
	list_of(below, &sg[1], 1, 0);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 1701 });
	want_eq(near_work(IBV_WR_SEND, above, 851, 100, 0).status, IBV_WC_LOC_PROT_ERR);
}

/* mlx5dv_create_mkey() */
static void create_refuses(int where)
{
	static const struct {
		uint32_t flags, entries;
		int err;
	} rows[] = { { 0, 4, EOPNOTSUPP },
		     { 32, 4, EOPNOTSUPP },
		     { INDIRECT | 1U << 31, 4, EOPNOTSUPP },
		     { INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO, 4, EOPNOTSUPP },
		     { INDIRECT, 65533, EINVAL } };
	struct mlx5dv_mkey_init_attr a = { NULL, INDIRECT, 4 };

	begin(where);
	want_null(mlx5dv_create_mkey(NULL), EINVAL);
	want_null(mlx5dv_create_mkey(&a), EINVAL);
	a.pd = duo.near.dev.pd;
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		a.create_flags = rows[i].flags;
		a.max_entries = (uint16_t)rows[i].entries;
		want_null(mlx5dv_create_mkey(&a), rows[i].err);
	}
	want_errno(mlx5dv_destroy_mkey(NULL), EINVAL);
}

static void fails(int err)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(duo.near.ep.qp);

	want_eq(ibv_wr_complete(ex), err);
}

/* Steps of a batch in the wrong order or number, or with values that do not fit */
static void builders_refuse(int where)
{
	struct mlx5dv_mkey_conf_attr reset = { .comp_mask = 1 }, none = { 0 };
	struct mlx5dv_mr_interleaved p[ENTRIES];
	struct ibv_sge sg[ENTRIES + 2] = { 0 };
	struct mlx5dv_qp_ex *dv;
	struct mlx5dv_mkey *m;

	begin(where);
	dv = dv_of(&duo.near);
	m = near_list(ALL);
	sges(&duo.near, sg);
	pattern(&duo.near, p);
	start(&duo.near)->wr_flags = IBV_SEND_SIGNALED;
	mlx5dv_wr_mr_list(dv, m, ALL, 1, sg);
	fails(EOPNOTSUPP);
	start(&duo.near);
	mlx5dv_wr_mr_list(dv, m, IBV_ACCESS_MW_BIND, 1, sg);
	fails(EINVAL);
	start(&duo.near);
	mlx5dv_wr_mr_list(dv, m, ALL, 5, sg);
	fails(ENOMEM); /* of 4 entries */
	start(&duo.near);
	mlx5dv_wr_mr_interleaved(dv, m, ALL, 1, 4, p);
	fails(ENOMEM); /* and a head */
	start(&duo.near);
	mlx5dv_wr_set_mkey_access_flags(dv, ALL);
	fails(EINVAL); /* without configure */
	start(&duo.near);
	mlx5dv_wr_mkey_configure(dv, m, 1, &reset);
	fails(EOPNOTSUPP);
	start(&duo.near);
	mlx5dv_wr_mkey_configure(dv, m, 2, &none);
	mlx5dv_wr_set_mkey_access_flags(dv, ALL);
	fails(EINVAL); /* one is missing */
	said_want(SAID_NEAR,
		  "mlx5dv_wr_mkey_configure on QP 0x%x (wr_id 0x4d): 1 setters are missing; call "
		  "as many as num_setters says",
		  duo.near.ep.qp->qp_num);
	start(&duo.near);
	mlx5dv_wr_mkey_configure(dv, m, 2, &none);
	mlx5dv_wr_set_mkey_access_flags(dv, ALL);
	mlx5dv_wr_set_mkey_access_flags(dv, ALL);
	fails(EINVAL); /* twice */
	start(&duo.near);
	mlx5dv_wr_mkey_configure(dv, m, 1, &none);
	mlx5dv_wr_set_mkey_access_flags(dv, ALL);
	mlx5dv_wr_set_mkey_layout_list(dv, 1, sg);
	fails(EINVAL); /* one too many */
	start(&duo.near);
	mlx5dv_wr_mkey_configure(dv, m, 2, &none);
	ibv_wr_local_inv(ibv_qp_to_qp_ex(duo.near.ep.qp), m->rkey);
	fails(EINVAL); /* another operation in between */
	start(&duo.near);
	mlx5dv_wr_mr_interleaved(dv, m, ALL, 0, 1, p);
	fails(EINVAL); /* no repeat */
	start(&duo.near);
	mlx5dv_wr_mkey_configure(dv, m, 1, &none);
	mlx5dv_wr_set_mkey_layout_interleaved(dv, 0, 1, p);
	fails(EINVAL);
	said_want(SAID_NEAR,
		  "mlx5dv_wr_set_mkey_layout_interleaved (wr_id 0x4d): repeat_count 0 for an mkey "
		  "on QP 0x%x; give at least 1",
		  duo.near.ep.qp->qp_num);
	start(&duo.near);
	p[0].bytes_skip = 65536;
	mlx5dv_wr_mr_interleaved(dv, m, ALL, 1, 1, p);
	fails(EINVAL);
	start(&duo.near);
	mlx5dv_wr_set_mkey_crypto(dv, NULL);
	fails(EOPNOTSUPP);
	/* nothing is left behind */
	set_up(&duo.near, m, NEW_LIST, ALL);
}

/* An mkey that was destroyed, and a pointer to no memory */
static void builders_refuse_what_has_ended(int where)
{
	struct mlx5dv_mkey_conf_attr none = { 0 };
	struct mlx5dv_mr_interleaved p[ENTRIES];
	struct mlx5dv_mkey *ended[2];
	struct ibv_sge sg[ENTRIES];
	struct mlx5dv_qp_ex *dv;

	begin(where);
	dv = dv_of(&duo.near);
	sges(&duo.near, sg);
	pattern(&duo.near, p);
	ended[0] = create(&duo.near, INDIRECT);
	want_eq(mlx5dv_destroy_mkey(ended[0]), 0);
	ended[1] = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	want(ended[1] != MAP_FAILED);
	for (int i = 0; i < 2; i++) {
		start(&duo.near);
		mlx5dv_wr_mr_list(dv, ended[i], ALL, 1, sg);
		fails(ENOENT);
		start(&duo.near);
		mlx5dv_wr_mr_interleaved(dv, ended[i], ALL, 1, 1, p);
		fails(ENOENT);
		start(&duo.near);
		mlx5dv_wr_mkey_configure(dv, ended[i], 0, &none);
		fails(ENOENT);
	}
	said_want(SAID_NEAR,
		  "mlx5dv_wr_mr_list: the mkey at %p is not alive: it was destroyed already (mkey "
		  "0x#); forget the pointer when the object ends",
		  (void *)ended[0]);
}

/* Zero setters: what was set up is in use again. */
static void configured_again_as_it_was(int where)
{
	struct mlx5dv_mkey_conf_attr none = { 0 };
	struct mlx5dv_mkey *m;
	struct ibv_qp_ex *ex;

	begin(where);
	m = near_list(IBV_ACCESS_LOCAL_WRITE);
	ex = start(&duo.near);
	ex->wr_flags = 0;
	ibv_wr_local_inv(ex, m->rkey);
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	mlx5dv_wr_mkey_configure(dv_of(&duo.near), m, 0, &none);
	want_eq(ibv_wr_complete(ex), 0);
	done(&duo.near);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 1701 });
	want_eq(near_work(IBV_WR_SEND, m, 0, 1701, 0).status, IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = 1701, .id = 1 }).found);
}

/* What only the device finds: the work request completes in error, and the mkey is as it was. */
static void device_refuses(int where)
{
	struct mlx5dv_mkey_init_attr a = { .create_flags = INDIRECT, .max_entries = 4 };
	struct mlx5dv_mkey *m, *foreign, *fresh;
	struct mlx5dv_mkey gone;
	struct ibv_sge sg;

	begin(where);
	m = near_list(ALL);
	sg = (struct ibv_sge){ (uintptr_t)duo.near.mem, 0, duo.near.mr->lkey };
	list_of(m, &sg, 1, IBV_WC_MW_BIND_ERR); /* no bytes */
	fresh = create(&duo.near, INDIRECT);
	unlisted(fresh, IBV_WC_MW_BIND_ERR);
	a.pd = ibv_alloc_pd(duo.near.dev.ctx);
	foreign = mlx5dv_create_mkey(&a);
	want(foreign);
	sg.length = 8;
	list_of(foreign, &sg, 1, IBV_WC_MW_BIND_ERR);
	want_eq(ibv_dealloc_pd(a.pd), EBUSY);
	want_eq(mlx5dv_destroy_mkey(foreign), 0);
	want_eq(ibv_dealloc_pd(a.pd), 0);
	raw_refused(m, MLX5_WQE_UMR_CTRL_FLAG_INLINE | MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE, 4, 0);
	raw_refused(m, MLX5_WQE_UMR_CTRL_FLAG_INLINE | MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET, 4,
		    0);
	raw_refused(m, 0, 4, 0); /* not inline, and more than one data segment */
	raw_refused(m, MLX5_WQE_UMR_CTRL_FLAG_INLINE, 5, 0); /* longer than the WQE */
	raw_refused(m, MLX5_WQE_UMR_CTRL_FLAG_INLINE, 4, 1ULL << 40);
	raw_refused(m, MLX5_WQE_UMR_CTRL_FLAG_INLINE, 4, MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY);
	raw_refused(m, MLX5_WQE_UMR_CTRL_FLAG_INLINE, 4, MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN);
	duo_tell(&duo, (struct duo_order){ DUO_RECV, .len = 1701 });
	want_eq(near_work(IBV_WR_SEND, m, 0, 1701, 0).status, IBV_WC_SUCCESS);
	want(duo_tell(&duo, (struct duo_order){ DUO_CHECK, .len = 1701, .id = 1 }).found);
	want_eq(mlx5dv_destroy_mkey(fresh), 0);
	gone = *m;
	want_eq(mlx5dv_destroy_mkey(m), 0);
	raw_refused(&gone, MLX5_WQE_UMR_CTRL_FLAG_INLINE, 4, 0);
}

/* Calls that take the key of a region */
static void is_no_region(int where)
{
	struct mlx5dv_mkey *m;
	struct ibv_sge sg = { .length = 1 };

	begin(where);
	m = near_list(ALL);
	sg.lkey = m->lkey;
	want_eq(ibv_advise_mr(duo.near.dev.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sg, 1), EINVAL);
	want_null(ibv_import_mr(duo.near.dev.pd, m->lkey >> 8), EINVAL);
	want_eq(mlx5dv_destroy_mkey(m), 0);
}

#define BOTH(f) CASE_ARG(f, OTHER_PROCESS), CASE_ARG(f, THIS_PROCESS)

static const struct test_case cases[] = {
	BOTH(moves),
	BOTH(sent_from),
	BOTH(received_into),
	BOTH(refused_to_peers),
	BOTH(invalidated_by_peers),
	BOTH(nested),
	BOTH(configured_again_as_it_was),
	BOTH(device_refuses),
	CASE_ARG(is_no_region, THIS_PROCESS),
	CASE_ARG(create_refuses, THIS_PROCESS),
	CASE_ARG(builders_refuse, THIS_PROCESS),
	CASE_ARG(builders_refuse_what_has_ended, THIS_PROCESS),
};

int main(void)
{
	return CASES_RUN(cases);
}
