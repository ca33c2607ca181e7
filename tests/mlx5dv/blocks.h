// SPDX-License-Identifier: MIT
/* Streams of data with protection fields, as the standards say and bit by bit: what programs of
 * mkeys with signatures are compared with. */
#pragma once
#include <infiniband/mlx5dv.h>
#include <stdbool.h>
#include <stdint.h>

enum blocks_kind { NO_FIELDS, DIF_CRC, DIF_CSUM, CRC32, CRC32C, CRC64, BLOCKS_KINDS };
enum { BLOCKS_SIZES = 5, BLOCKS_APP = 0xabcd, BLOCKS_FIELD_MAX = 8 };
#define BLOCKS_REF 0xfffffffeU /* which counting carries round */

struct blocks {
	enum blocks_kind kind;
	enum mlx5dv_block_size size;
	bool ones; /* seed; of T10-DIF also whether the reference tag counts */
};

uint32_t blocks_size(const struct blocks *b); /* bytes of data in a block */
uint32_t blocks_field(const struct blocks *b); /* bytes of a field */
uint64_t blocks_guard(const struct blocks *b, const uint8_t *block);
/* The stream of @n bytes of data; returns its bytes. */
uint32_t blocks_stream(const struct blocks *b, const uint8_t *data, uint32_t n, uint8_t *out);

/* The attribute that says so. It stays where it is. */
struct blocks_attr {
	struct mlx5dv_sig_t10dif dif;
	struct mlx5dv_sig_crc crc;
	struct mlx5dv_sig_block_domain domain;
};
/* NULL: no fields. */
const struct mlx5dv_sig_block_domain *blocks_domain(const struct blocks *b, struct blocks_attr *a);
