// SPDX-License-Identifier: MIT
/* Signatures of mkeys: every pair of domains by every operation on either side, against streams
 * that are laid out bit by bit; damage, and what mlx5dv_mkey_check() says of it; loss, raw work
 * requests, and what cannot go through a signature. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "blocks.h"
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "verbs/said.h"

enum { OTHER_PROCESS, THIS_PROCESS };
enum {
	SIGNED = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC,
};
/* Of each side's memory: an mkey is the first @CUT bytes at @SECOND, and the rest at 0. */
enum { CUT = 1001, SECOND = 40000, PLAIN = 80000, BYTES = 1 << 17, ROOM = 20000 };

static struct duo duo;

/* What an mkey's streams are; it travels in an order's id. */
struct plan {
	struct blocks mem, wire;
	uint32_t data; /* bytes */
	uint8_t seed, check;
};

struct streams {
	struct plan plan;
	uint32_t mem_len, wire_len;
	uint8_t data[ROOM], mem[ROOM], wire[ROOM];
};

static uint64_t packed(const struct plan *p)
{
	return (uint64_t)p->mem.kind | (uint64_t)p->mem.size << 4 | (uint64_t)p->mem.ones << 8 |
	       (uint64_t)p->wire.kind << 12 | (uint64_t)p->wire.size << 16 |
	       (uint64_t)p->wire.ones << 20 | (uint64_t)p->seed << 24 | (uint64_t)p->check << 32 |
	       (uint64_t)p->data << 40;
}

static struct plan unpacked(uint64_t v)
{
	return (struct plan){ { v & 15, v >> 4 & 15, v >> 8 & 1 },
			      { v >> 12 & 15, v >> 16 & 15, v >> 20 & 1 },
			      (uint32_t)(v >> 40),
			      (uint8_t)(v >> 24),
			      (uint8_t)(v >> 32) };
}

static const struct streams *lay(const struct plan *p)
{
	static struct streams s;

	s.plan = *p;
	pattern_fill(s.data, p->data, p->seed, 0);
	s.mem_len = blocks_stream(&p->mem, s.data, p->data, s.mem);
	s.wire_len = blocks_stream(&p->wire, s.data, p->data, s.wire);
	return &s;
}

static uint8_t *byte_of(const struct side *s, uint32_t i)
{
	return s->mem + (i < CUT ? SECOND + i : i - CUT);
}

static void begin_with(int where, enum ibv_mtu mtu)
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC,
				      .cap = { 16, 16, 4, 4, 512 },
				      .mtu = mtu,
				      .send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_LOCAL_INV },
			      .together = where == THIS_PROCESS,
			      .bytes = BYTES };

	said_begin();
	duo_open(&duo, &o);
}

static void begin(int where)
{
	begin_with(where, 0);
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

static enum ibv_wc_status completed(const struct side *s)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	want(peer_poll(s->ep.scq, &wc, 10000));
	return wc.status;
}

static struct mlx5dv_mkey *create(const struct side *s, uint32_t flags)
{
	struct mlx5dv_mkey_init_attr a = { s->dev.pd, flags, 4 };
	struct mlx5dv_mkey *m = mlx5dv_create_mkey(&a);

	want(m);
	return m;
}

static void layout(const struct side *s, uint32_t len)
{
	struct ibv_sge sg[] = { { (uintptr_t)s->mem + SECOND, len < CUT ? len : CUT, s->mr->lkey },
				{ (uintptr_t)s->mem, len < CUT ? 0 : len - CUT, s->mr->lkey } };

	mlx5dv_wr_set_mkey_layout_list(dv_of(s), len > CUT ? 2 : 1, sg);
}

static void set_up(const struct side *s, struct mlx5dv_mkey *m, const struct plan *p)
{
	struct blocks_attr mem, wire;
	struct mlx5dv_sig_block_attr sig = { .mem = blocks_domain(&p->mem, &mem),
					     .wire = blocks_domain(&p->wire, &wire),
					     .check_mask = p->check };
	struct mlx5dv_mkey_conf_attr none = { 0 };
	struct ibv_qp_ex *ex = start(s);

	mlx5dv_wr_mkey_configure(dv_of(s), m, 3, &none);
	if (p->seed & 1) /* in any order */
		mlx5dv_wr_set_mkey_sig_block(dv_of(s), &sig);
	layout(s, lay(p)->mem_len);
	if (!(p->seed & 1))
		mlx5dv_wr_set_mkey_sig_block(dv_of(s), &sig);
	mlx5dv_wr_set_mkey_access_flags(dv_of(s), ALL);
	want_eq(ibv_wr_complete(ex), 0);
	want_eq(completed(s), IBV_WC_SUCCESS);
}

static void put(const struct side *s, const struct plan *p)
{
	const struct streams *t = lay(p);

	for (uint32_t i = 0; i < t->mem_len; i++)
		*byte_of(s, i) = t->mem[i];
	memcpy(s->mem + PLAIN, t->wire, t->wire_len);
}

/* The mkey's memory (or the plain copy of the wire) is what it should be, and no byte more. */
PEER_TOLD static bool holds(const struct side *s, const struct plan *p, bool plain)
{
	const struct streams *t = lay(p);
	uint32_t n = plain ? t->wire_len : t->mem_len;

	for (uint32_t i = 0; i < n; i++) {
		uint8_t is = plain ? s->mem[PLAIN + i] : *byte_of(s, i);

		if (is != (plain ? t->wire[i] : t->mem[i])) {
			peer_note("byte %u of %u is %02x", i, n, is);
			return false;
		}
	}
	return plain ? !s->mem[PLAIN + n] : !*byte_of(s, n);
}

static struct duo_answer far_create(struct side *s, const struct duo_order *o)
{
	struct mlx5dv_mkey *m = create(s, o->len);

	s->own[0] = m;
	return (struct duo_answer){ .found = true, .value = m->rkey };
}

static struct duo_answer far_set_up(struct side *s, const struct duo_order *o)
{
	struct plan p = unpacked(o->id);

	set_up(s, s->own[0], &p);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_put(struct side *s, const struct duo_order *o)
{
	struct plan p = unpacked(o->id);

	put(s, &p);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_holds(struct side *s, const struct duo_order *o)
{
	struct plan p = unpacked(o->id);

	return (struct duo_answer){ .found = holds(s, &p, o->off) };
}

static struct duo_answer far_clear(struct side *s, const struct duo_order *o)
{
	(void)o;
	memset(s->mem, 0, s->bytes);
	return (struct duo_answer){ .found = true };
}

static struct duo_answer far_recv(struct side *s, const struct duo_order *o)
{
	struct ibv_sge sg = { 0, o->len, ((struct mlx5dv_mkey *)s->own[0])->lkey };

	peer_recv(&s->ep, 4, &sg, 1);
	return (struct duo_answer){ .found = true };
}

/* Turns bit @len of the byte @off of the mkey's memory. */
static struct duo_answer far_damage(struct side *s, const struct duo_order *o)
{
	*byte_of(s, o->off) ^= (uint8_t)(1U << o->len);
	return (struct duo_answer){ .found = true };
}

/* value: @off 0 the type of the error, 1 to 3 its numbers; each call checks @len times before. */
static struct duo_answer far_check(struct side *s, const struct duo_order *o)
{
	static struct mlx5dv_mkey_err e;

	if (!o->off)
		want_eq(mlx5dv_mkey_check(s->own[0], &e), 0);
	return (struct duo_answer){ .found = true,
				    .value = o->off == 0   ? (uint64_t)e.err_type
					     : o->off == 1 ? e.err.sig.expected_value
					     : o->off == 2 ? e.err.sig.actual_value
							   : e.err.sig.offset };
}

static struct mlx5dv_mkey_err check_far(void)
{
	return (struct mlx5dv_mkey_err){
		.err_type = (enum mlx5dv_mkey_err_type)duo_do(&duo, far_check, 0, 0, 0).value,
		.err.sig = { .expected_value = duo_do(&duo, far_check, 1, 0, 0).value,
			     .actual_value = duo_do(&duo, far_check, 2, 0, 0).value,
			     .offset = duo_do(&duo, far_check, 3, 0, 0).value }
	};
}

static struct mlx5dv_mkey_err check_near(struct mlx5dv_mkey *m)
{
	struct mlx5dv_mkey_err e;

	want_eq(mlx5dv_mkey_check(m, &e), 0);
	return e;
}

static enum ibv_wc_status work(enum ibv_wr_opcode op, struct ibv_sge sg, uint64_t va, uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = op,
				  .sg_list = &sg,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { va, rkey } };

	want_eq(duo_post(&duo, &wr), 0);
	return duo_wc(&duo).status;
}

static struct ibv_sge plain(uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)duo.near.mem + PLAIN, len, duo.near.mr->lkey };
}

static void clear(bool near, bool far)
{
	if (near)
		memset(duo.near.mem, 0, duo.near.bytes);
	if (far)
		duo_do(&duo, far_clear, 0, 0, 0);
}

/* --- every pair of domains --- */

struct world {
	struct mlx5dv_mkey *near;
	uint32_t far; /* rkey */
};

static struct world make_keys(void)
{
	return (struct world){ create(&duo.near, SIGNED),
			       (uint32_t)duo_do(&duo, far_create, 0, SIGNED, 0).value };
}

static void configure(const struct world *w, const struct plan *p)
{
	set_up(&duo.near, w->near, p);
	duo_do(&duo, far_set_up, 0, 0, packed(p));
}

/* The responder's mkey: what is written to it is stored by its memory's domain, and read back by
 * that of the wire. */
static void by_rkey(const struct world *w, const struct plan *p)
{
	uint32_t n = lay(p)->wire_len;

	clear(true, true);
	put(&duo.near, p);
	want_eq(work(IBV_WR_RDMA_WRITE, plain(n), 0, w->far), IBV_WC_SUCCESS);
	want(duo_do(&duo, far_holds, false, 0, packed(p)).found);
	clear(true, false);
	want_eq(work(IBV_WR_RDMA_READ, plain(n), 0, w->far), IBV_WC_SUCCESS);
	want(holds(&duo.near, p, true));
}

/* The requester's mkey */
static void by_lkey(const struct world *w, const struct plan *p)
{
	struct ibv_sge sg = { 0, lay(p)->wire_len, w->near->lkey };
	const struct peer_addr *to = &duo.near.ep.theirs;

	clear(true, true);
	put(&duo.near, p);
	want_eq(work(IBV_WR_RDMA_WRITE, sg, to->va + PLAIN, to->rkey), IBV_WC_SUCCESS);
	want(duo_do(&duo, far_holds, true, 0, packed(p)).found);
	clear(true, false);
	want_eq(work(IBV_WR_RDMA_READ, sg, to->va + PLAIN, to->rkey), IBV_WC_SUCCESS);
	want(holds(&duo.near, p, false));
}

static void by_both(const struct world *w, const struct plan *p)
{
	struct ibv_sge sg = { 0, lay(p)->wire_len, w->near->lkey };

	clear(true, true);
	put(&duo.near, p);
	duo_do(&duo, far_recv, 0, sg.length, 0);
	want_eq(work(IBV_WR_SEND, sg, 0, 0), IBV_WC_SUCCESS);
	want_eq(duo_far_wc(&duo).byte_len, sg.length);
	want(duo_do(&duo, far_holds, false, 0, packed(p)).found);
}

static struct plan plan_of(unsigned int i)
{
	return (struct plan){ { i % 6, i % 5, i & 1 },
			      { i / 6 % 6, i / 5 % 5, i / 2 & 1 },
			      i % 3 ? 4160 * 2 : 9001,
			      (uint8_t)(i + 1),
			      0xff };
}

static void run_pairs(unsigned int step)
{
	struct world w = make_keys();

	for (unsigned int i = 0; i < 6 * 6 * 5; i += step) {
		struct plan p = plan_of(i);

		if (i % 4 == 3) /* the same on both sides, so fields are taken over */
			p.wire = p.mem;
		peer_note("pair %u: %d/%d in memory, %d/%d on the wire", i, p.mem.kind, p.mem.size,
			  p.wire.kind, p.wire.size);
		configure(&w, &p);
		by_rkey(&w, &p);
		by_lkey(&w, &p);
		by_both(&w, &p);
		want_eq(check_near(w.near).err_type, MLX5DV_MKEY_NO_ERR);
		want_eq(check_far().err_type, MLX5DV_MKEY_NO_ERR);
	}
	want_eq(mlx5dv_destroy_mkey(w.near), 0);
}

static void each_pair_of_domains(int where)
{
	begin(where);
	run_pairs(!cases_full() && (where == THIS_PROCESS || cases_sanitized()) ? 7 : 1);
}

/* Segments of a packet each, some of which are lost and sent again */
static void through_a_link_that_loses(int where)
{
	want_eq(setenv("SOFTHCA_FAULT", "seed=3,loss=5%,reorder=2%,dup=2%", 1), 0);
	begin_with(where, IBV_MTU_1024);
	run_pairs(7);
}

/* --- damage --- */

/* What is to be told of one turned bit of byte @at */
static void want_error(struct mlx5dv_mkey_err e, const struct blocks *b, const uint8_t *stream,
		       uint32_t at)
{
	uint32_t pitch = blocks_size(b) + blocks_field(b), block = at / pitch;
	const uint8_t *field = stream + block * pitch + blocks_size(b);
	bool tags = b->kind == DIF_CRC || b->kind == DIF_CSUM;
	uint64_t is = 0;

	want_eq(e.err.sig.offset, block * pitch);
	if (tags && at % pitch >= blocks_size(b) + 4) {
		want_eq(e.err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG);
		want_eq(e.err.sig.actual_value, (uint32_t)(BLOCKS_REF + (b->ones ? block : 0)));
		want_eq(e.err.sig.expected_value,
			(uint32_t)field[4] << 24 | field[5] << 16 | field[6] << 8 | field[7]);
	} else if (tags && at % pitch >= blocks_size(b) + 2) {
		want_eq(e.err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG);
		want_eq(e.err.sig.actual_value, BLOCKS_APP);
		want_eq(e.err.sig.expected_value, field[2] << 8 | field[3]);
	} else {
		want_eq(e.err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
		want_eq(e.err.sig.actual_value, blocks_guard(b, stream + block * pitch));
		for (uint32_t i = 0; i < blocks_field(b); i++)
			is |= (uint64_t)field[i] << (8 * i);
		want_eq(e.err.sig.expected_value, tags ? (uint64_t)(field[0] << 8 | field[1]) : is);
	}
}

/* A place in the second block: in its data, or in its field */
static uint32_t place_in(const struct blocks *b, unsigned int i)
{
	uint32_t pitch = blocks_size(b) + blocks_field(b);

	return i & 1 ? pitch + 17 * i : 2 * pitch - 1 - i / 2 % blocks_field(b);
}

static void damage_memory(const struct world *w, const struct plan *p, unsigned int i)
{
	struct streams *t = (struct streams *)(uintptr_t)lay(p);
	const struct peer_addr *to = &duo.near.ep.theirs;
	struct ibv_sge sg = { 0, t->wire_len, w->near->lkey };
	uint32_t at = place_in(&p->mem, i);

	put(&duo.near, p);
	*byte_of(&duo.near, at) ^= (uint8_t)(1U << i % 8);
	t->mem[at] ^= (uint8_t)(1U << i % 8);
	want_eq(work(IBV_WR_RDMA_WRITE, sg, to->va + PLAIN, to->rkey), IBV_WC_SUCCESS);
	want_error(check_near(w->near), &p->mem, t->mem, at);
	duo_do(&duo, far_put, 0, 0, packed(p));
	duo_do(&duo, far_damage, at, i % 8, 0);
	want_eq(work(IBV_WR_RDMA_READ, plain(sg.length), 0, w->far), IBV_WC_SUCCESS);
	t = (struct streams *)(uintptr_t)lay(p);
	t->mem[at] ^= (uint8_t)(1U << i % 8);
	want_error(check_far(), &p->mem, t->mem, at);
}

static void damage_wire(const struct world *w, const struct plan *p, unsigned int i)
{
	struct streams *t = (struct streams *)(uintptr_t)lay(p);
	const struct peer_addr *to = &duo.near.ep.theirs;
	struct ibv_sge sg = { 0, t->wire_len, w->near->lkey };
	uint32_t at = place_in(&p->wire, i);

	put(&duo.near, p);
	duo.near.mem[PLAIN + at] ^= (uint8_t)(1U << i % 8);
	want_eq(work(IBV_WR_RDMA_WRITE, plain(sg.length), 0, w->far), IBV_WC_SUCCESS);
	t->wire[at] ^= (uint8_t)(1U << i % 8);
	want_error(check_far(), &p->wire, t->wire, at);
	/* and where the requester reads it */
	want_eq(work(IBV_WR_RDMA_WRITE, plain(sg.length), to->va + PLAIN, to->rkey),
		IBV_WC_SUCCESS);
	want_eq(work(IBV_WR_RDMA_READ, sg, to->va + PLAIN, to->rkey), IBV_WC_SUCCESS);
	want_error(check_near(w->near), &p->wire, t->wire, at);
}

static void one_bit_is_found(int where)
{
	struct world w;

	begin(where);
	w = make_keys();
	for (unsigned int i = 0; i < 60; i++) {
		struct blocks b = { 1 + i % 5, i / 5 % 5, i / 3 & 1 };
		struct plan p = { b, { NO_FIELDS }, 9001, (uint8_t)(i + 1), 0xff };

		peer_note("damage %u", i);
		configure(&w, &p);
		damage_memory(&w, &p, i);
		p.wire = b;
		p.mem.kind = NO_FIELDS;
		configure(&w, &p);
		damage_wire(&w, &p, i);
	}
	want_eq(check_near(w.near).err_type, MLX5DV_MKEY_NO_ERR);
	want_eq(check_far().err_type, MLX5DV_MKEY_NO_ERR);
}

/* Sends the near mkey's memory, whose first byte is damaged. */
static void send_damaged(struct mlx5dv_mkey *m, const struct plan *p)
{
	const struct peer_addr *to = &duo.near.ep.theirs;
	struct ibv_sge sg = { 0, lay(p)->wire_len, m->lkey };

	put(&duo.near, p);
	*byte_of(&duo.near, 0) ^= 1;
	want_eq(work(IBV_WR_RDMA_WRITE, sg, to->va + PLAIN, to->rkey), IBV_WC_SUCCESS);
}

static void reconfigure(struct mlx5dv_mkey *m, uint32_t flags)
{
	struct mlx5dv_mkey_conf_attr conf = { .conf_flags = flags };
	struct ibv_qp_ex *ex = start(&duo.near);

	mlx5dv_wr_mkey_configure(dv_of(&duo.near), m, 0, &conf);
	want_eq(ibv_wr_complete(ex), 0);
	want_eq(completed(&duo.near), IBV_WC_SUCCESS);
}

/* The first error is kept until it is asked for; the next one is found after a UMR. */
static void errors_are_told_once(int where)
{
	struct plan p = { { DIF_CRC, 0, true }, { NO_FIELDS }, 1024, 1, 0xff };
	struct mlx5dv_mkey *m;

	begin(where);
	m = create(&duo.near, SIGNED);
	want_eq(check_near(m).err_type, MLX5DV_MKEY_NO_ERR);
	set_up(&duo.near, m, &p);
	send_damaged(m, &p);
	send_damaged(m, &p);
	want_eq(check_near(m).err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
	want_eq(check_near(m).err_type, MLX5DV_MKEY_NO_ERR);
	send_damaged(m, &p);
	want_eq(check_near(m).err_type, MLX5DV_MKEY_NO_ERR);
	reconfigure(m, 0); /* the signature stays as it was */
	send_damaged(m, &p);
	want_eq(check_near(m).err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
	said_want(
		SAID_NEAR,
		"QP 0x#, mkey 0x%x: the guard of the block at byte 0 in memory is wrong; the data "
		"was moved all the same, and mlx5dv_mkey_check() tells both values",
		m->lkey);
	p.check = MLX5DV_SIG_MASK_T10DIF_APPTAG; /* the guard is not looked at */
	set_up(&duo.near, m, &p);
	send_damaged(m, &p);
	want_eq(check_near(m).err_type, MLX5DV_MKEY_NO_ERR);
}

/* Without its signature an mkey is its memory. */
static void reset_to_an_mkey_without(int where)
{
	struct plan p = { { CRC32, 0, true }, { NO_FIELDS }, 1024, 1, 0xff };
	const struct peer_addr *to = &duo.near.ep.theirs;
	struct mlx5dv_mkey *m;
	struct ibv_sge sg;

	begin(where);
	m = create(&duo.near, SIGNED);
	set_up(&duo.near, m, &p);
	put(&duo.near, &p);
	sg = (struct ibv_sge){ 0, lay(&p)->mem_len, m->lkey };
	want_eq(work(IBV_WR_RDMA_WRITE, sg, to->va + PLAIN, to->rkey), IBV_WC_LOC_PROT_ERR);
	duo_reconnect(&duo);
	reconfigure(m, MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR);
	want_eq(work(IBV_WR_RDMA_WRITE, sg, to->va + PLAIN, to->rkey), IBV_WC_SUCCESS);
	p.wire = p.mem;
	want(duo_do(&duo, far_holds, true, 0, packed(&p)).found);
}

/* A UMR with a BSF, as a program writes it that knows an adapter's formats alone: @format of the
 * wire's domain, 4096 B blocks. */
static void raw(struct mlx5dv_mkey *m, uint8_t format, uint32_t len, enum ibv_wc_status status)
{
	uint8_t wqe[16 * 16] __attribute__((aligned(64))) = { 0 }, *bsf = wqe + 12 * 16;
	struct mlx5_wqe_umr_ctrl_seg *umr = (void *)(wqe + 16);
	struct mlx5_wqe_mkey_context_seg *ctx = (void *)(umr + 1);
	struct ibv_qp_ex *ex = start(&duo.near);

	mlx5dv_set_ctrl_seg((void *)wqe, 0, MLX5_OPCODE_UMR, 0, 0, MLX5_WQE_CTRL_CQ_UPDATE, 16, 0,
			    htobe32(m->lkey));
	umr->flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	umr->klm_octowords = htobe16(4);
	umr->bsf_octowords = htobe16(4);
	umr->mkey_mask = htobe64(
		MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_SIG_ERR |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_BSF_ENABLE |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE | MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE);
	ctx->access_flags = 4 | 8;
	ctx->qpn_mkey = htobe32(0xffffff00 | (m->lkey & 0xff));
	ctx->flags_pd = htobe32(1 << 30);
	ctx->len = htobe64(len);
	ctx->inseg[0].klm.byte_count = htobe32(CUT);
	ctx->inseg[0].klm.mkey = htobe32(duo.near.mr->lkey);
	ctx->inseg[0].klm.address = htobe64((uintptr_t)duo.near.mem + SECOND);
	ctx->inseg[1].klm.byte_count = htobe32(len - CUT);
	ctx->inseg[1].klm.mkey = htobe32(duo.near.mr->lkey);
	ctx->inseg[1].klm.address = htobe64((uintptr_t)duo.near.mem);
	bsf[0] = 0x80;
	bsf[1] = 0xff;
	bsf[2] = 3;
	bsf[8] = format;
	mlx5dv_wr_raw_wqe(dv_of(&duo.near), wqe);
	want_eq(ibv_wr_complete(ex), 0);
	want_eq(completed(&duo.near), status);
	if (status != IBV_WC_SUCCESS)
		duo_reconnect(&duo);
}

static void by_raw_work_requests(int where)
{
	struct plan p = { { NO_FIELDS }, { CRC32C, MLX5DV_BLOCK_SIZE_4096, true }, 9001, 1, 0xff };
	struct world w;

	begin(where);
	w.near = create(&duo.near, SIGNED);
	raw(w.near, 0x40, 9001, IBV_WC_MW_BIND_ERR); /* which does not repeat */
	raw(w.near, 0x42, 9001, IBV_WC_SUCCESS);
	by_lkey(&w, &p);
	p.wire = (struct blocks){ CRC64, MLX5DV_BLOCK_SIZE_4096, false };
	raw(w.near, 0x53, 9001, IBV_WC_SUCCESS);
	by_lkey(&w, &p);
	want_eq(check_near(w.near).err_type, MLX5DV_MKEY_NO_ERR);
}

/* --- what is refused --- */

/* Atomics, parts of other mkeys, more bytes than there are */
static void not_through_a_signature(int where)
{
	struct plan p = { { NO_FIELDS }, { DIF_CRC, 0, true }, 1024, 1, 0xff };
	struct mlx5dv_mkey_conf_attr none = { 0 };
	const struct peer_addr *to = &duo.near.ep.theirs;
	struct mlx5dv_mkey *above;
	struct ibv_sge sg;
	struct world w;
	struct ibv_qp_ex *ex;

	begin(where);
	w = make_keys();
	configure(&w, &p);
	want_eq(work(IBV_WR_ATOMIC_FETCH_AND_ADD, plain(8), 0, w.far), IBV_WC_REM_ACCESS_ERR);
	duo_reconnect(&duo);
	want_eq(work(IBV_WR_RDMA_WRITE, plain(1041), 0, w.far), IBV_WC_REM_ACCESS_ERR);
	duo_reconnect(&duo);
	above = create(&duo.near, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT);
	sg = (struct ibv_sge){ 0, 1040, w.near->lkey };
	ex = start(&duo.near);
	mlx5dv_wr_mkey_configure(dv_of(&duo.near), above, 1, &none);
	mlx5dv_wr_set_mkey_layout_list(dv_of(&duo.near), 1, &sg);
	want_eq(ibv_wr_complete(ex), 0);
	want_eq(completed(&duo.near), IBV_WC_SUCCESS);
	sg.lkey = above->lkey;
	want_eq(work(IBV_WR_RDMA_WRITE, sg, to->va + PLAIN, to->rkey), IBV_WC_LOC_PROT_ERR);
	duo_reconnect(&duo);
	by_lkey(&w, &p);
}

/* A caller that knows a part of the struct gets that part. */
static void check_fills_what_the_caller_has(int where)
{
	struct plan p = { { CRC32, 0, true }, { NO_FIELDS }, 512, 1, 0xff };
	uint8_t room[sizeof(struct mlx5dv_mkey_err)];
	struct mlx5dv_mkey_err *e = (void *)room;
	struct mlx5dv_mkey *m;

	begin(where);
	m = create(&duo.near, SIGNED);
	set_up(&duo.near, m, &p);
	send_damaged(m, &p);
	memset(room, 0x5a, sizeof(room));
	want_eq(_mlx5dv_mkey_check(m, e, sizeof(e->err_type)), 0);
	want_eq(e->err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
	for (size_t i = sizeof(e->err_type); i < sizeof(room); i++)
		want_eq(room[i], 0x5a);
}

#define BOTH(f) CASE_ARG(f, OTHER_PROCESS), CASE_ARG(f, THIS_PROCESS)

static const struct test_case cases[] = {
	BOTH(each_pair_of_domains),	BOTH(through_a_link_that_loses),
	BOTH(one_bit_is_found),		CASE_ARG(errors_are_told_once, OTHER_PROCESS),
	BOTH(reset_to_an_mkey_without), CASE_ARG(by_raw_work_requests, OTHER_PROCESS),
	BOTH(not_through_a_signature),	CASE_ARG(check_fills_what_the_caller_has, THIS_PROCESS),
};

int main(void)
{
	return CASES_RUN(cases);
}
