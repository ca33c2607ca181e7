// SPDX-License-Identifier: MIT
/* UMR work requests: what the builder writes reads back at every place of the ring, and whatever
 * stands there instead, nothing is taken from outside of it. */
#include "prm/umr.h"
#include "test.h"
#include "util/be.h"
#include "util/rand.h"

enum { BLOCKS = 16, SEG = 16 };
#define MASK(bit) ((uint64_t)MLX5_WQE_UMR_CTRL_MKEY_MASK_##bit)

static uint8_t buf[BLOCKS * WQE_BB];
static uint32_t record;
static const struct sq_ring ring = { buf, BLOCKS, &record };
static uint8_t built[UMR_MAX] __attribute__((aligned(8)));

static void place(uint16_t pi, unsigned int list, uint32_t mkey)
{
	unsigned int segs = UMR_FIXED_SEGS + list;
	uint8_t wqe[64 * SEG] = { 0 };

	put_be32(wqe, (uint32_t)pi << 8 | MLX5_OPCODE_UMR);
	put_be32(wqe + 4, segs);
	put_be32(wqe + 12, mkey);
	memcpy(wqe + SEG, built, (size_t)(segs - 1) * SEG);
	for (unsigned int i = 0; i < segs * SEG; i++)
		buf[(pi * WQE_BB + i) % sizeof(buf)] = wqe[i];
}

static void some_parts(struct rand *r, struct umr_part *part, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		part[i] = (struct umr_part){ rand_u64(r), 1 + (uint32_t)rand_below(r, 60000),
					     1 + (uint32_t)rand_below(r, 65535),
					     (uint32_t)rand_u64(r) | 1 };
}

TEST(lists_read_back_at_every_place_of_the_ring)
{
	struct umr_part part[UMR_PARTS];
	struct rand r;
	struct umr u;

	rand_init(&r, 4);
	for (unsigned int i = 0; i < 400; i++) {
		bool times = i & 1;
		unsigned int n = 1 + (unsigned int)rand_below(&r, UMR_PARTS - 3), segs;
		uint64_t len = rand_u64(&r);
		uint16_t pi = (uint16_t)rand_u64(&r);

		some_parts(&r, part, n);
		memset(built, 0xff, sizeof(built)); /* of an earlier one */
		memset(built, 0, UMR_HEAD);
		umr_access(built, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE);
		umr_free(built, i % 3 == 0);
		segs = times ? umr_interleaved(built, part, n, 7, len)
			     : umr_list(built, part, n, len);
		check_eq(segs, (n + times + 3) / 4 * 4);
		if (segs > UMR_PARTS)
			continue;
		place(pi, segs, 0x4711);
		check(umr_parse(&ring, pi, &u) == NULL);
		check_eq(u.mkey, 0x4711);
		check_eq(u.access, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE);
		check_eq(u.free, i % 3 == 0);
		check_eq(u.len, len);
		check_eq(u.start, 0);
		check(u.mask & MASK(LEN) && u.mask & MASK(START_ADDR) && u.mask & MASK(FREE));
		check(u.listed);
		check_eq(u.times, times ? 7 : 1);
		check_eq(u.nparts, times ? n : segs);
		for (unsigned int k = 0; k < u.nparts; k++) {
			struct umr_part none = { 0 }, *p = k < n ? &part[k] : &none;

			check_eq(u.part[k].va, p->va);
			check_eq(u.part[k].len, p->len);
			check_eq(u.part[k].key, p->key);
			check_eq(u.part[k].stride, times ? p->stride : 0);
		}
	}
}

TEST(a_list_is_no_longer_than_its_work_request)
{
	struct umr_part part[5] = { { 1, 1, 1, 1 } };
	struct umr u;

	memset(built, 0, sizeof(built));
	check_eq(umr_list(built, part, 5, 5), 8);
	place(3, 7, 1);
	check(umr_parse(&ring, 3, &u) != NULL);
	place(3, 8, 1);
	check(umr_parse(&ring, 3, &u) == NULL);
	memset(built, 0, sizeof(built));
	check_eq(umr_interleaved(built, part, 3, 1, 3), 4);
	put_be16(built + 48 + 64 + 14, 4); /* entries behind its head */
	place(3, 4, 1);
	check(umr_parse(&ring, 3, &u) != NULL);
	put_be16(built + 48 + 64 + 14, 0);
	place(3, 4, 1);
	check(umr_parse(&ring, 3, &u) != NULL);
	buf[3 * WQE_BB + 7] = 7; /* segments */
	check(umr_parse(&ring, 3, &u) != NULL);
}

TEST(a_signature_stands_behind_the_list)
{
	struct umr_part part[5] = { { 1, 1, 1, 1 } };
	struct signature s = {
		.wire = { .guard = CHECKSUM_CRC64, .block = 520, .field = 8, .ones = true },
		.check = 0x7e,
	};
	struct umr u;

	for (unsigned int list = 0; list <= 8; list += 4) {
		memset(built, 0, sizeof(built));
		if (list)
			check_eq(umr_list(built, part, list - 3, 5), list);
		place(15, list, 1);
		check(umr_parse(&ring, 15, &u) == NULL);
		check(!u.brings_sig && !(u.mask & MASK(BSF_ENABLE)) && !(u.mask & MASK(SIG_ERR)));
		umr_sign(built, true);
		umr_rearm(built);
		bsf_write(built + (UMR_FIXED_SEGS - 1 + list) * SEG, &s);
		place(15, list + BSF_SEGS, 1);
		check(umr_parse(&ring, 15, &u) == NULL);
		check_eq(u.listed, list != 0);
		check(u.brings_sig && u.is_signed);
		check(u.mask & MASK(BSF_ENABLE) && u.mask & MASK(SIG_ERR));
		check_eq(u.sig.wire.guard, CHECKSUM_CRC64);
		check_eq(u.sig.wire.block, 520);
		check_eq(u.sig.check, 0x7e);
		check_eq(u.sig.mem.guard, CHECKSUM_NONE);
		place(15, list + BSF_SEGS - 1, 1); /* it is cut */
		check(umr_parse(&ring, 15, &u) != NULL);
		built[(UMR_FIXED_SEGS - 1 + list) * SEG] = 0; /* its size */
		place(15, list + BSF_SEGS, 1);
		check(umr_parse(&ring, 15, &u) != NULL);
	}
}

/* A data segment of @bytes under @key at @va, and what says how long the list is */
static void built_away(uint16_t klm, uint32_t bytes, uint32_t key, uint64_t va)
{
	uint8_t *seg = built + (UMR_FIXED_SEGS - 1) * SEG;

	memset(built, 0, sizeof(built));
	put_be16(built + 4, klm);
	put_be32(seg, bytes);
	put_be32(seg + 4, key);
	put_be64(seg + 8, va);
}

TEST(a_list_in_memory_reads_back)
{
	enum { N = 4000 };
	static struct umr_part part[N], got[N];
	static uint8_t bytes[N * SEG];
	struct rand r;
	struct umr u;

	rand_init(&r, 11);
	some_parts(&r, part, N);
	for (unsigned int i = 0; i < N; i++) {
		put_be32(bytes + (size_t)i * SEG, part[i].len);
		put_be32(bytes + (size_t)i * SEG + 4, part[i].key);
		put_be64(bytes + (size_t)i * SEG + 8, part[i].va);
	}
	for (unsigned int more = 0; more < 3; more++) { /* a longer segment; 2 GiB */
		built_away(N, more == 2 ? 0 : (N + more) * SEG, 0x4712, 0x1234567);
		place(14, 1, 0x4711);
		check(umr_parse(&ring, 14, &u) == NULL);
		check(!u.listed);
		check_eq(u.away.len, N * SEG);
		check_eq(u.away.key, 0x4712);
		check_eq(u.away.addr, 0x1234567);
	}
	check(umr_read_list(&u, bytes, got) == NULL);
	check(u.listed && u.read == got);
	check_eq(u.nparts, N);
	check_eq(u.times, 1);
	for (unsigned int i = 0; i < N; i++)
		check(got[i].va == part[i].va && got[i].len == part[i].len &&
		      got[i].key == part[i].key && !got[i].stride);
	put_be32(bytes + 4, UMR_REPEAT);
	put_be32(bytes + 8, 9);
	put_be16(bytes + 14, N - 1);
	check(umr_read_list(&u, bytes, got) == NULL);
	check_eq(u.nparts, N - 1);
	check_eq(u.times, 9);
	check_eq(got[N - 2].len, part[N - 1].len & 0xffff);
	put_be16(bytes + 14, N); /* one more than there are */
	check(umr_read_list(&u, bytes, got) != NULL);
	put_be16(bytes + 14, 0);
	check(umr_read_list(&u, bytes, got) != NULL);
}

TEST(where_a_list_in_memory_stands_is_said_once_and_whole)
{
	struct umr u;

	built_away(4, 4 * SEG - 1, 7, 0x1000);
	place(3, 1, 1);
	check(umr_parse(&ring, 3, &u) != NULL);
	built_away(4, 4 * SEG, 7, 0x1000);
	place(3, 0, 1);
	check(umr_parse(&ring, 3, &u) != NULL);
	place(3, 2, 1);
	check(umr_parse(&ring, 3, &u) != NULL);
	put_be16(built + 6, BSF_SEGS);
	place(3, 1, 1);
	check(umr_parse(&ring, 3, &u) != NULL);
	built_away(4, 1U << 31 | 4 * SEG, 7, 0x1000);
	place(3, 1, 1);
	check(umr_parse(&ring, 3, &u) != NULL);
	built_away(0, 4 * SEG, 7, 0x1000); /* no list at all */
	place(3, 1, 1);
	check(umr_parse(&ring, 3, &u) == NULL);
	check(!u.listed && !u.away.len);
}

TEST(garbage_is_bounded)
{
	struct rand r;
	struct umr u;

	rand_init(&r, 9);
	for (unsigned int i = 0; i < 20000; i++) {
		for (size_t k = 0; k < sizeof(buf); k += 8) {
			uint64_t v = i & 1 ? rand_u64(&r) : rand_u64(&r) & 0x0f00000f0f00000fULL;

			memcpy(buf + k, &v, 8);
		}
		buf[16] |= MLX5_WQE_UMR_CTRL_FLAG_INLINE;
		buf[20] = buf[22] = 0;
		if (umr_parse(&ring, (uint16_t)(i * BLOCKS), &u) || !u.listed)
			continue;
		check(u.nparts >= 1 && u.nparts <= UMR_PARTS);
	}
}

RUN_TESTS(unit_test(lists_read_back_at_every_place_of_the_ring),
	  unit_test(a_list_is_no_longer_than_its_work_request),
	  unit_test(a_signature_stands_behind_the_list), unit_test(a_list_in_memory_reads_back),
	  unit_test(where_a_list_in_memory_stands_is_said_once_and_whole),
	  unit_test(garbage_is_bounded))
