// SPDX-License-Identifier: MIT
#include "blocks.h"
#include <endian.h>
#include <string.h>

static const struct {
	int bits;
	uint64_t polynomial;
	bool reflected;
} crcs[] = { [DIF_CRC] = { 16, 0x8bb7, false },
	     [CRC32] = { 32, 0x04c11db7, true },
	     [CRC32C] = { 32, 0x1edc6f41, true },
	     [CRC64] = { 64, 0xad93d23594c93659, true } };

uint32_t blocks_size(const struct blocks *b)
{
	static const uint32_t sizes[BLOCKS_SIZES] = { 512, 520, 4048, 4096, 4160 };

	return sizes[b->size];
}

uint32_t blocks_field(const struct blocks *b)
{
	static const uint32_t fields[BLOCKS_KINDS] = { 0, 8, 8, 4, 4, 8 };

	return fields[b->kind];
}

static uint64_t turned(uint64_t v, int bits)
{
	uint64_t out = 0;

	for (int i = 0; i < bits; i++)
		out |= (v >> i & 1) << (bits - 1 - i);
	return out;
}

static uint64_t crc(const struct blocks *b, const uint8_t *p, uint32_t n)
{
	int bits = crcs[b->kind].bits;
	bool reflected = crcs[b->kind].reflected;
	uint64_t all = UINT64_MAX >> (64 - bits), reg = b->ones ? all : 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t byte = reflected ? turned(p[i], 8) : p[i];

		reg ^= byte << (bits - 8);
		for (int k = 0; k < 8; k++)
			reg = (reg << 1 & all) ^
			      (reg >> (bits - 1) & 1 ? crcs[b->kind].polynomial : 0);
	}
	return reflected ? turned(reg, bits) ^ all : reg;
}

uint64_t blocks_guard(const struct blocks *b, const uint8_t *block)
{
	uint64_t sum = b->ones ? 0xffff : 0;

	if (b->kind != DIF_CSUM)
		return crc(b, block, blocks_size(b));
	for (uint32_t i = 0; i < blocks_size(b); i++)
		sum += (uint64_t)block[i] << (i % 2 ? 0 : 8);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void field(const struct blocks *b, uint32_t number, const uint8_t *block, uint8_t *out)
{
	uint64_t guard = blocks_guard(b, block), le = htole64(guard);
	uint16_t be = htobe16((uint16_t)guard), app = htobe16(BLOCKS_APP);
	uint32_t ref = htobe32(BLOCKS_REF + (b->ones ? number : 0));

	if (b->kind != DIF_CRC && b->kind != DIF_CSUM) {
		memcpy(out, &le, blocks_field(b));
		return;
	}
	memcpy(out, &be, 2);
	memcpy(out + 2, &app, 2);
	memcpy(out + 4, &ref, 4);
}

uint32_t blocks_stream(const struct blocks *b, const uint8_t *data, uint32_t n, uint8_t *out)
{
	uint32_t size = blocks_size(b), at = 0, i = 0;

	for (; b->kind != NO_FIELDS && (i + 1) * size <= n; i++) {
		memcpy(out + at, data + i * size, size);
		field(b, i, data + i * size, out + at + size);
		at += size + blocks_field(b);
	}
	memcpy(out + at, data + i * size, n - i * size);
	return at + n - i * size;
}

const struct mlx5dv_sig_block_domain *blocks_domain(const struct blocks *b, struct blocks_attr *a)
{
	if (b->kind == NO_FIELDS)
		return NULL;
	a->domain = (struct mlx5dv_sig_block_domain){ .block_size = b->size };
	if (b->kind == DIF_CRC || b->kind == DIF_CSUM) {
		a->dif = (struct mlx5dv_sig_t10dif){
			.bg_type =
				b->kind == DIF_CRC ? MLX5DV_SIG_T10DIF_CRC : MLX5DV_SIG_T10DIF_CSUM,
			.bg = b->ones ? UINT16_MAX : 0,
			.app_tag = BLOCKS_APP,
			.ref_tag = BLOCKS_REF,
			.flags = b->ones ? MLX5DV_SIG_T10DIF_FLAG_REF_REMAP : 0,
		};
		a->domain.sig_type = MLX5DV_SIG_TYPE_T10DIF;
		a->domain.sig.dif = &a->dif;
		return &a->domain;
	}
	a->crc.type = b->kind == CRC32	  ? MLX5DV_SIG_CRC_TYPE_CRC32
		      : b->kind == CRC32C ? MLX5DV_SIG_CRC_TYPE_CRC32C
					  : MLX5DV_SIG_CRC_TYPE_CRC64_XP10;
	a->crc.seed = b->ones ? UINT64_MAX : 0;
	a->domain.sig_type = MLX5DV_SIG_TYPE_CRC;
	a->domain.sig.crc = &a->crc;
	return &a->domain;
}
