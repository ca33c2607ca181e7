// SPDX-License-Identifier: MIT
#include "prm/wqe.h"
#include <errno.h>
#include <stddef.h>
#include "test.h"
#include "util/be.h"
#include "util/rand.h"

enum { BLOCKS = 16 };

static uint8_t buf[BLOCKS * WQE_BB];
static uint32_t record;
static const struct sq_ring ring = { buf, BLOCKS, &record };

/* Writes segments at a block number as a driver does: 16 bytes each, wrapping at the ring's end. */
struct writer {
	uint16_t pi;
	unsigned int segs;
};

static uint8_t *seg(struct writer *w)
{
	return buf + (w->pi * WQE_BB + w->segs++ * 16) % sizeof(buf);
}

static void put_ctrl(struct writer *w, uint8_t opcode, uint8_t flags, uint32_t imm)
{
	uint8_t *p = seg(w);

	memset(p, 0, 16);
	put_be32(p, (uint32_t)w->pi << 8 | opcode);
	p[11] = flags;
	memcpy(p + 12, &imm, 4);
}

static void put_ds(struct writer *w, unsigned int ds)
{
	put_be32(buf + w->pi * WQE_BB % sizeof(buf) + 4, 0x123400 | ds);
}

static void put_data(struct writer *w, const struct sge *s)
{
	uint8_t *p = seg(w);

	put_be32(p, s->len);
	put_be32(p + 4, s->key);
	put_be64(p + 8, s->addr);
}

static void put_remote(struct writer *w, uint64_t addr, uint32_t rkey)
{
	uint8_t *p = seg(w);

	put_be64(p, addr);
	put_be32(p + 8, rkey);
}

/* A driver that takes a work request back changes its opcode and nothing else. */
TEST(what_was_taken_back_has_no_data)
{
	const struct sge sge = { 0x1000, 64, 5 };
	struct writer w = { .pi = 3 };
	struct wqe got;

	put_ctrl(&w, MLX5_OPCODE_NOP, MLX5_WQE_CTRL_CQ_UPDATE, 0);
	put_remote(&w, UINT64_MAX, 0xabcd); /* read as data, it is inline and far too long */
	put_data(&w, &sge);
	put_ds(&w, w.segs);
	check_eq(wqe_parse(&ring, w.pi, BLOCKS, WQE_CONNECTED, &got), 0);
	check_eq(got.opcode, MLX5_OPCODE_NOP);
	check_eq(got.nsge, 0);
	check_eq(got.len, 0);
}

TEST(a_gather_list_reads_back_at_every_place_of_the_ring)
{
	struct rand r;

	rand_init(&r, 1);
	for (unsigned int i = 0; i < 20000; i++) {
		struct writer w = { .pi = rand_u64(&r) };
		unsigned int n = rand_below(&r, WQE_MAX_SGE + 1);
		struct sge sge[WQE_MAX_SGE];
		uint64_t total = 0;
		struct wqe got;

		put_ctrl(&w, MLX5_OPCODE_RDMA_WRITE, MLX5_WQE_CTRL_CQ_UPDATE, 7);
		put_remote(&w, 0x1122334455667788, 0xabcd);
		for (unsigned int k = 0; k < n; k++) {
			sge[k] = (struct sge){ rand_u64(&r), 1 + rand_below(&r, 1 << 20),
					       rand_u64(&r) };
			total += sge[k].len;
			put_data(&w, &sge[k]);
		}
		put_ds(&w, w.segs);
		check_eq(wqe_parse(&ring, w.pi, BLOCKS, WQE_CONNECTED, &got), 0);
		check_eq(got.opcode, MLX5_OPCODE_RDMA_WRITE);
		check_eq(got.idx, w.pi);
		check_eq(got.nbb, (w.segs + 3) / 4);
		check(got.signaled && !got.solicited && !got.fence);
		check_eq(got.imm, 7);
		check_eq(got.raddr, 0x1122334455667788);
		check_eq(got.rkey, 0xabcd);
		check_eq(got.nsge, n);
		check_eq(got.inlined, 0);
		check_eq(got.len, total);
		check_mem(got.sge, sge, n * sizeof(sge[0]));
	}
}

TEST(inline_data_wraps_at_the_end_of_the_ring)
{
	for (uint16_t pi = 0; pi < 2 * BLOCKS; pi++)
		for (unsigned int len = 1; len <= WQE_INLINE_MAX; len += 13) {
			struct writer w = { .pi = pi };
			uint8_t out[WQE_INLINE_MAX];
			struct wqe got;
			size_t at;

			put_ctrl(&w, MLX5_OPCODE_SEND, 0, 0);
			at = (pi * WQE_BB + 16) % sizeof(buf);
			put_be32(buf + at, 1U << 31 | len);
			for (unsigned int i = 0; i < len; i++)
				buf[(at + 4 + i) % sizeof(buf)] = i * 7 + len;
			put_ds(&w, 1 + (len + 4 + 15) / 16);
			check_eq(wqe_parse(&ring, pi, BLOCKS, WQE_CONNECTED, &got), 0);
			check_eq(got.len, len);
			check(got.nsge == 1 || got.nsge == 2);
			check_eq(got.inlined, got.nsge == 1 ? 1 : 3);
			memcpy(out, (void *)(uintptr_t)got.sge[0].addr, got.sge[0].len);
			if (got.nsge == 2)
				memcpy(out + got.sge[0].len, (void *)(uintptr_t)got.sge[1].addr,
				       got.sge[1].len);
			for (unsigned int i = 0; i < len; i++)
				check_eq(out[i], (uint8_t)(i * 7 + len));
		}
}

TEST(an_address_vector_reads_back)
{
	struct av av = { .flow_label = 0xabcde,
			 .sgid_index = 3,
			 .hop_limit = 64,
			 .traffic_class = 5,
			 .sl = 2,
			 .sport = 0xd123 };
	struct writer w = { .pi = BLOCKS - 1 }; /* the AV wraps */
	struct mlx5_wqe_av raw;
	struct wqe got;

	memset(&got, 0, sizeof(got)); /* padding is compared too */
	memset(&av.dgid, 0x5a, sizeof(av.dgid));
	av_encode(&av, &raw);
	raw.key.qkey.qkey = htobe32(0x11223344);
	raw.dqp_dct |= htobe32(0x4321);
	put_ctrl(&w, MLX5_OPCODE_SEND, MLX5_WQE_CTRL_SOLICITED | MLX5_WQE_CTRL_FENCE, 0);
	for (unsigned int i = 0; i < sizeof(raw) / 16; i++)
		memcpy(seg(&w), (uint8_t *)&raw + i * 16, 16);
	put_ds(&w, w.segs);
	check_eq(wqe_parse(&ring, w.pi, 1, WQE_DATAGRAM, &got), 0);
	check_eq(got.qkey, 0x11223344);
	check_eq(got.dqpn, 0x4321);
	check(got.solicited && got.fence && !got.signaled);
	check_mem(&got.av, &av, sizeof(av));
	check_eq(got.len, 0);
}

/* The forms of 8 bytes. */
TEST(masked_atomics_read_back_at_every_place_of_the_ring)
{
	const struct sge sge = { 0x1000, 8, 5 };

	for (uint16_t pi = 0; pi < 2 * BLOCKS; pi++)
		for (int swap = 0; swap < 2; swap++) {
			struct writer w = { .pi = pi };
			struct wqe got;

			put_ctrl(&w,
				 swap ? MLX5_OPCODE_ATOMIC_MASKED_CS : MLX5_OPCODE_ATOMIC_MASKED_FA,
				 0, 0);
			buf[pi * WQE_BB % sizeof(buf)] = 9; /* opmod */
			put_remote(&w, 0x1122334455667788, 0xabcd);
			for (int i = 0; i <= swap; i++) {
				uint8_t *p = seg(&w);

				put_be64(p, 0x1111 + 2U * (unsigned int)i);
				put_be64(p + 8, 0x1112 + 2U * (unsigned int)i);
			}
			put_data(&w, &sge);
			put_ds(&w, w.segs);
			check_eq(wqe_parse(&ring, pi, BLOCKS, WQE_CONNECTED, &got), 0);
			check_eq(got.raddr, 0x1122334455667788);
			check_eq(got.swap_add, 0x1111);
			check_eq(swap ? got.compare : got.swap_mask, 0x1112);
			check_eq(got.nsge, 1);
			check_eq(got.len, 8);
			if (swap)
				check(got.swap_mask == 0x1113 && got.compare_mask == 0x1114);
		}
}

TEST(a_bind_reads_back_at_every_place_of_the_ring)
{
	const struct wqe_bind_seg b = { .rkey = htobe32(0x1234),
					.lkey = htobe32(0x5678),
					.addr = htobe64(0x1122334455667788),
					.len = htobe64(0x100000001),
					.access = htobe32(7) };

	for (uint16_t pi = 0; pi < 2 * BLOCKS; pi++)
		for (unsigned int ds = 1; ds <= 3; ds++) {
			struct writer w = { .pi = pi };
			struct wqe out;

			put_ctrl(&w, WQE_OPCODE_BIND_MW, 0, htobe32(0x1200));
			memcpy(seg(&w), &b, 16);
			memcpy(seg(&w), (const uint8_t *)&b + 16, 16);
			put_ds(&w, ds);
			check_eq(wqe_parse(&ring, pi, 1, WQE_CONNECTED, &out),
				 ds < 3 ? EBADMSG : 0);
			if (ds < 3)
				continue;
			check_eq(be32toh(out.imm), 0x1200);
			check_eq(out.bind.rkey, 0x1234);
			check_eq(out.bind.lkey, 0x5678);
			check_eq(out.bind.addr, 0x1122334455667788);
			check_eq(out.bind.len, 0x100000001);
			check_eq(out.bind.access, 7);
			check_eq(out.len, 0);
		}
}

TEST(the_number_of_an_srq_reads_back)
{
	struct writer w = { .pi = BLOCKS - 1 };
	struct wqe got;

	put_ctrl(&w, MLX5_OPCODE_RDMA_WRITE, 0, 0);
	put_be32(seg(&w), 0xff123456); /* 24 bits of it */
	put_remote(&w, 0x1122334455667788, 0x99);
	put_ds(&w, w.segs);
	check_eq(wqe_parse(&ring, w.pi, 1, WQE_XRC, &got), 0);
	check_eq(got.srqn, 0x123456);
	check_eq(got.raddr, 0x1122334455667788);
	check_eq(got.rkey, 0x99);
	put_ds(&w, 1);
	check_eq(wqe_parse(&ring, w.pi, 1, WQE_XRC, &got), EBADMSG);
	put_ctrl(&(struct writer){ .pi = w.pi }, MLX5_OPCODE_SEND, 0, 0);
	put_ds(&w, 1);
	check_eq(wqe_parse(&ring, w.pi, 1, WQE_CONNECTED, &got), 0);
	check_eq(got.srqn, 0);
}

TEST(a_byte_count_of_zero_is_two_gib)
{
	struct writer w = { 0 };
	struct wqe got;

	put_ctrl(&w, MLX5_OPCODE_SEND, 0, 0);
	put_data(&w, &(struct sge){ 4096, 0, 9 });
	put_ds(&w, w.segs);
	check_eq(wqe_parse(&ring, 0, BLOCKS, WQE_CONNECTED, &got), 0);
	check_eq(got.len, 1U << 31);
	put_data(&w, &(struct sge){ 4096, 1, 9 });
	put_ds(&w, w.segs);
	check_eq(wqe_parse(&ring, 0, BLOCKS, WQE_CONNECTED, &got), EMSGSIZE);
}

TEST(what_is_malformed_is_refused)
{
	static const struct {
		uint8_t opcode;
		unsigned int ds, avail;
		enum wqe_service svc;
		enum wqe_wrong wrong;
		unsigned int fixed; /* segments before the list */
	} bad[] = {
		{ MLX5_OPCODE_SEND, 0, BLOCKS, WQE_CONNECTED, WQE_EMPTY, 1 },
		{ MLX5_OPCODE_SEND, 5, 1, WQE_CONNECTED, WQE_TOO_LONG, 1 },
		{ MLX5_OPCODE_RDMA_WRITE, 1, 1, WQE_CONNECTED, WQE_CUT_OFF, 2 },
		{ MLX5_OPCODE_ATOMIC_CS, 2, 1, WQE_CONNECTED, WQE_CUT_OFF, 3 },
		{ MLX5_OPCODE_ATOMIC_MASKED_FA, 4, 1, WQE_CONNECTED, WQE_MASKED_SIZE, 1 },
		{ MLX5_OPCODE_SEND, 3, 1, WQE_DATAGRAM, WQE_CUT_OFF, 4 },
		{ MLX5_OPCODE_SEND, 4, 1, WQE_DATAGRAM, WQE_COMPACT_AV, 2 },
		{ MLX5_OPCODE_SEND, 2, 1, WQE_DC, WQE_COMPACT_AV, 2 },
		{ MLX5_OPCODE_SEND, 1, 1, WQE_XRC, WQE_CUT_OFF, 2 },
		{ MLX5_OPCODE_ATOMIC_FA, 3, 1, WQE_XRC, WQE_CUT_OFF, 4 },
		{ MLX5_OPCODE_SEND, 33, BLOCKS, WQE_CONNECTED, WQE_MANY_SGES, 1 },
	};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct writer w = { 0 };
		struct wqe got;

		memset(buf, 0, sizeof(buf));
		for (unsigned int k = 0; k < sizeof(buf); k += 16)
			buf[k + 3] = 1; /* as data segments: one byte each */
		put_ctrl(&w, bad[i].opcode, 0, 0);
		put_ds(&w, bad[i].ds);
		if (bad[i].wrong != WQE_COMPACT_AV)
			buf[16 + offsetof(struct mlx5_wqe_av, dqp_dct)] = 0x80;
		check_eq(wqe_parse(&ring, 0, bad[i].avail, bad[i].svc, &got), EBADMSG);
		check(got.nbb >= 1);
		check_eq(got.wrong, bad[i].wrong);
		check_eq(got.ds, bad[i].ds);
		check_eq(wqe_fixed_segs(&ring, 0, bad[i].svc), bad[i].fixed);
	}
}

static void put_inline(struct writer *w, const uint8_t *data, uint32_t len)
{
	uint32_t at = (uint32_t)(seg(w) - buf);

	put_be32(buf + at, 1U << 31 | len);
	for (uint32_t i = 0; i < len; i++)
		buf[(at + 4 + i) % sizeof(buf)] = data[i];
	w->segs += (len + 4 + 15) / 16 - 1;
}

/* Follows the list: entry by entry what was written, however runs of inline data are cut. */
static void reads_back(const struct wqe *got, const struct sge *wrote, unsigned int n)
{
	unsigned int k = 0;

	for (unsigned int i = 0; i < n; i++) {
		const uint8_t *from = (const uint8_t *)(uintptr_t)wrote[i].addr;

		if (wrote[i].key) {
			check(k < got->nsge && !(got->inlined >> k & 1));
			check_mem(&got->sge[k++], &wrote[i], sizeof(wrote[i]));
			continue;
		}
		for (uint32_t at = 0; at < wrote[i].len; at += got->sge[k++].len) {
			check(k < got->nsge && (got->inlined >> k & 1) && !got->sge[k].key);
			check_mem((void *)(uintptr_t)got->sge[k].addr, from + at, got->sge[k].len);
		}
	}
	check_eq(k, got->nsge);
	check(!(got->inlined >> k));
}

TEST(inline_data_and_data_segments_mix_in_any_order)
{
	static uint8_t bytes[256];
	struct rand r;

	rand_init(&r, 3);
	for (unsigned int i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
	for (unsigned int i = 0; i < 20000; i++) {
		struct writer w = { .pi = rand_u64(&r) };
		struct sge wrote[62];
		unsigned int n = 0, nkeyed = 0;
		uint64_t total = 0;
		struct wqe got;

		put_ctrl(&w, MLX5_OPCODE_SEND, 0, 0);
		for (uint32_t len = 0; w.segs + (len + 4 + 15) / 16 <= 63; n++) {
			bool keyed = nkeyed < WQE_MAX_SGE && rand_below(&r, 3) == 0;

			wrote[n] = (struct sge){ keyed ? rand_u64(&r) : (uintptr_t)bytes + len, len,
						 keyed ? 9 : 0 };
			wrote[n].len += keyed; /* a count of 0 would be 2 GiB */
			nkeyed += keyed;
			total += wrote[n].len;
			if (keyed)
				put_data(&w, &wrote[n]);
			else
				put_inline(&w, bytes + len, len);
			len = rand_below(&r, i % 2 ? 13 : 128); /* 13: a segment each */
		}
		put_ds(&w, w.segs);
		check_eq(wqe_parse(&ring, w.pi, BLOCKS, WQE_CONNECTED, &got), 0);
		check_eq(got.len, total);
		reads_back(&got, wrote, n);
	}
}

TEST(inline_data_does_not_reach_past_the_wqe)
{
	for (uint32_t len = 0; len < 64; len++) {
		struct writer w = { .pi = BLOCKS - 1 };
		struct wqe got;

		put_ctrl(&w, MLX5_OPCODE_SEND, 0, 0);
		put_data(&w, &(struct sge){ 4096, 5, 9 });
		put_data(&w, &(struct sge){ 0, 1U << 31 | len, 0 });
		put_ds(&w, 4);
		put_data(&w, &(struct sge){ 4096, 5, 9 });
		check_eq(wqe_parse(&ring, w.pi, BLOCKS, WQE_CONNECTED, &got),
			 len > 28 ? EBADMSG : 0);
	}
}

/* The record may say anything, and a WQE longer than the ring would name bytes behind it. */
TEST(a_wqe_is_not_longer_than_its_ring)
{
	const struct sq_ring one = { buf, 1, &record };
	struct writer w = { 0 };
	struct wqe got;

	put_ctrl(&w, MLX5_OPCODE_SEND, 0, 0);
	put_data(&w, &(struct sge){ 0, 1U << 31 | 200, 0 });
	put_ds(&w, 14);
	check_eq(wqe_parse(&one, 0, BLOCKS, WQE_CONNECTED, &got), EBADMSG);
	check_eq(wqe_parse(&ring, 0, BLOCKS, WQE_CONNECTED, &got), 0);
}

TEST(random_bytes_never_lead_outside_the_ring)
{
	struct rand r;

	rand_init(&r, 2);
	for (unsigned int i = 0; i < 50000; i++) {
		enum wqe_service svc = (enum wqe_service)rand_below(&r, WQE_DC + 1);
		struct wqe got;

		for (unsigned int k = 0; k < sizeof(buf); k += 8)
			put_be64(buf + k, rand_u64(&r));
		if (wqe_parse(&ring, rand_u64(&r), 1 + rand_below(&r, BLOCKS), svc, &got))
			continue;
		check(got.nsge <= WQE_MAX_RUNS && got.len <= 1U << 31);
		for (unsigned int k = 0; k < got.nsge; k++) {
			uintptr_t a = got.sge[k].addr, start = (uintptr_t)buf;

			if (got.inlined >> k & 1)
				check(a >= start && a + got.sge[k].len <= start + sizeof(buf));
		}
	}
}

TEST(a_receive_list_ends_at_its_terminator)
{
	uint8_t mem[4 * 64];
	struct rq_ring rq = { mem, 4, 64, &record };
	struct rwqe got;

	memset(mem, 0, sizeof(mem));
	for (unsigned int n = 0; n <= 4; n++) {
		for (unsigned int k = 0; k < 4; k++) {
			put_be32(mem + 64 + k * 16, k < n ? 100 + k : 0);
			put_be32(mem + 64 + k * 16 + 4, k < n ? k + 1 : MLX5_INVALID_LKEY);
		}
		rwqe_parse(&rq, 4 + 1, &got);
		check_eq(got.idx, 4 + 1);
		check_eq(got.nsge, n);
		check_eq(got.len, n * 100 + n * (n - 1) / 2);
	}
}

/* A program may have got its key wrong so that it is the one of the end mark. */
TEST(bytes_under_the_key_of_the_end_mark_are_an_entry)
{
	uint8_t mem[64];
	struct rq_ring rq = { mem, 1, 64, &record };
	struct rwqe got;

	memset(mem, 0, sizeof(mem));
	put_be32(mem, 8);
	put_be32(mem + 4, MLX5_INVALID_LKEY);
	put_be32(mem + 16 + 4, MLX5_INVALID_LKEY);
	rwqe_parse(&rq, 0, &got);
	check_eq(got.nsge, 1);
	check_eq(got.sge[0].key, MLX5_INVALID_LKEY);
}

TEST(a_shared_receive_wqe_names_the_next)
{
	uint8_t mem[2 * 32];
	struct rq_ring rq = { mem, 2, 32, &record };
	struct rwqe got;
	uint16_t next;

	memset(mem, 0, sizeof(mem));
	put_be16(mem + 32 + 2, 77);
	put_be32(mem + 32 + 16, 5);
	put_be32(mem + 32 + 20, 6);
	put_be64(mem + 32 + 24, 7);
	srwqe_parse(&rq, 1, &got, &next);
	check_eq(next, 77);
	check_eq(got.nsge, 1);
	check_eq(got.sge[0].len, 5);
	check_eq(got.sge[0].key, 6);
	check_eq(got.sge[0].addr, 7);
}

RUN_TESTS(unit_test(what_was_taken_back_has_no_data),
	  unit_test(a_gather_list_reads_back_at_every_place_of_the_ring),
	  unit_test(inline_data_wraps_at_the_end_of_the_ring),
	  unit_test(inline_data_and_data_segments_mix_in_any_order),
	  unit_test(inline_data_does_not_reach_past_the_wqe),
	  unit_test(a_wqe_is_not_longer_than_its_ring), unit_test(an_address_vector_reads_back),
	  unit_test(the_number_of_an_srq_reads_back),
	  unit_test(masked_atomics_read_back_at_every_place_of_the_ring),
	  unit_test(a_bind_reads_back_at_every_place_of_the_ring),
	  unit_test(a_byte_count_of_zero_is_two_gib), unit_test(what_is_malformed_is_refused),
	  unit_test(random_bytes_never_lead_outside_the_ring),
	  unit_test(a_receive_list_ends_at_its_terminator),
	  unit_test(bytes_under_the_key_of_the_end_mark_are_an_entry),
	  unit_test(a_shared_receive_wqe_names_the_next))
