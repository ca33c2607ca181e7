// SPDX-License-Identifier: MIT
#include "wire/icrc_id.h"

#define POLYNOMIAL 0xedb88320U /* reflected: bit 31 is x^0 */

/* x^(-8 * 2^k): takes back 2^k zero bytes. */
static const uint32_t back[] = {
	/* clang-format off */
	0x6567cb95, 0xd7125358, 0x5b358fd3, 0x2e9bb40b, 0x12a59a49, 0x8df9403d, 0x5139de12,
	0xba340226, 0x29c45641, 0x12fbc105, 0xecd30c55, 0x3755ebd8, 0x24ee460c, 0x23783fcf,
	/* clang-format on */
};
enum { STEPS = sizeof(back) / sizeof(back[0]) };

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = 1U << 31; bit; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
	}
	return product;
}

/* Two bytes that enter the register and the bytes behind them are as many shifts; undone, the low
 * half of the register is what entered, and the high half must be empty. */
bool icrc_solve_id(uint32_t diff, size_t after, uint16_t *id)
{
	size_t bytes = after + sizeof(*id);

	if (bytes >> STEPS)
		return false;
	for (unsigned int k = 0; k < STEPS; k++)
		if (bytes >> k & 1)
			diff = multiply(diff, back[k]);
	if (diff >> 16)
		return false;
	*id = (uint16_t)(diff << 8 | diff >> 8);
	return true;
}
