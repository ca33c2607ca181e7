// SPDX-License-Identifier: MIT
/* CRC-32 of zlib and Ethernet (reflected 0x04c11db7). crc_update(0, ...) starts one, and its result
 * is passed to the next call: crc(ab) = crc_update(crc_update(0, a), b). Pure; any alignment. */
#pragma once
#include <isa-l/crc.h>
#include <stddef.h>
#include <stdint.h>

static inline uint32_t crc_update(uint32_t crc, const void *buf, size_t len)
{
	return crc32_gzip_refl(crc, (const unsigned char *)buf, len);
}
