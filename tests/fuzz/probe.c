// SPDX-License-Identifier: MIT
/* Does the compiler have libFuzzer? */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	(void)data;
	(void)len;
	return 0;
}
