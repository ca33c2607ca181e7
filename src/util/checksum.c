// SPDX-License-Identifier: MIT
#include "util/checksum.h"
#include <isa-l/crc.h>
#include <pthread.h>
#include <string.h>
#include "util/be.h"

/* isa-l of Debian 12 has other 64-bit polynomials only, so this one is ours: eight bytes a step. */
#define REFLECTED 0x9a6c9329ac4bc9b5ULL

enum { STEP = 8 };

static uint64_t table[STEP][256];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void fill(void)
{
	for (unsigned int i = 0; i < 256; i++) {
		uint64_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? REFLECTED : 0);
		table[0][i] = crc;
	}
	for (unsigned int k = 1; k < STEP; k++)
		for (unsigned int i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

static uint64_t crc64(uint64_t crc, const uint8_t *p, size_t n)
{
	uint64_t word;

	pthread_once(&filled, fill);
	for (; n >= STEP; n -= STEP, p += STEP) {
		memcpy(&word, p, STEP);
		word = le64toh(word) ^ crc;
		crc = 0;
		for (unsigned int k = 0; k < STEP; k++)
			crc ^= table[STEP - 1 - k][word >> (8 * k) & 0xff];
	}
	for (; n; n--, p++)
		crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
	return crc;
}

static uint64_t sum(uint64_t s, const uint8_t *p, size_t n)
{
	for (; n > 1; n -= 2, p += 2)
		s += get_be16(p);
	if (n)
		s += (uint64_t)*p << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return s;
}

uint64_t checksum_start(bool ones)
{
	return ones ? UINT64_MAX : 0;
}

uint64_t checksum_more(enum checksum kind, uint64_t state, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	switch (kind) {
	case CHECKSUM_CRC16:
		return crc16_t10dif((uint16_t)state, p, len);
	case CHECKSUM_IP:
		return sum((uint16_t)state, p, len);
	case CHECKSUM_CRC32:
		return (uint32_t)~crc32_gzip_refl((uint32_t)~state, p, len);
	case CHECKSUM_CRC32C: /* it reads, though its argument does not say so */
		return crc32_iscsi((unsigned char *)(uintptr_t)p, (int)len, (uint32_t)state);
	case CHECKSUM_CRC64:
		return crc64(state, p, len);
	case CHECKSUM_NONE:
		break;
	}
	return state;
}

uint64_t checksum_end(enum checksum kind, uint64_t state)
{
	switch (kind) {
	case CHECKSUM_CRC16:
		return (uint16_t)state;
	case CHECKSUM_IP:
		return (uint16_t)~state;
	case CHECKSUM_CRC32:
	case CHECKSUM_CRC32C:
		return (uint32_t)~state;
	case CHECKSUM_CRC64:
		return ~state;
	case CHECKSUM_NONE:
		break;
	}
	return 0;
}
