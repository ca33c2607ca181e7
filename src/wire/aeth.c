// SPDX-License-Identifier: MIT
#include "wire/aeth.h"

/* Credits of an ACK's code: 0, 1, then powers of two and their halves more. */
static const uint16_t credits_of[AETH_UNLIMITED] = {
	0,    1,    2,	  3,	4,    6,     8,	    12,	   16,	  24,	32,
	48,   64,   96,	  128,	192,  256,   384,   512,   768,	  1024, 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

/* Units of 10 us. */
static const uint32_t rnr_10us[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

uint8_t aeth_ack(uint32_t credits)
{
	uint8_t code = AETH_UNLIMITED - 1;

	while (credits_of[code] > credits)
		code--;
	return AETH_ACK | code;
}

uint32_t aeth_credits(uint8_t syndrome)
{
	uint8_t code = aeth_code(syndrome);

	return code == AETH_UNLIMITED ? UINT32_MAX : credits_of[code];
}

uint64_t aeth_rnr_ns(unsigned int timer)
{
	return (uint64_t)rnr_10us[timer & AETH_CODE_MASK] * 10000;
}
