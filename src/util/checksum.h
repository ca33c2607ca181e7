// SPDX-License-Identifier: MIT
/* Checksums of data blocks, as storage protocols define them, in parts: start, more, end. The
 * result stands in the low bits. Pure; any alignment. The parts of CHECKSUM_IP but the last have
 * even lengths. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum checksum {
	CHECKSUM_NONE,
	CHECKSUM_CRC16, /* T10-DIF's guard: 0x8bb7, neither reflected nor inverted */
	CHECKSUM_IP, /* the internet checksum of 16-bit big-endian words, inverted */
	CHECKSUM_CRC32, /* Ethernet, FC-PH: 0x04c11db7, reflected, inverted at the end */
	CHECKSUM_CRC32C, /* iSCSI, Castagnoli: 0x1edc6f41, as CRC32 */
	CHECKSUM_CRC64, /* XP10, NVMe: 0xad93d23594c93659, as CRC32 */
};

/* @ones: the register begins with all ones, as is usual for all but the 16-bit checksums. */
uint64_t checksum_start(bool ones);
uint64_t checksum_more(enum checksum kind, uint64_t state, const void *buf, size_t len);
uint64_t checksum_end(enum checksum kind, uint64_t state);
