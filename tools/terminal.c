// SPDX-License-Identifier: MIT
#include "terminal.h"
#include <stddef.h>

/* The bytes of the character at @p; 0: it is a control character, or no UTF-8. The latter hides
 * control characters from what decodes it less strictly. */
static size_t printable(const unsigned char *p)
{
	size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;

	if (p[0] < 0x80)
		return p[0] >= ' ' && p[0] != 0x7f;
	if (p[0] < 0xc2 || p[0] > 0xf4 || (p[0] == 0xc2 && p[1] < 0xa0) ||
	    (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90))
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

void terminal_clean(char *text)
{
	size_t n;

	for (; *text; text += n) {
		n = printable((const unsigned char *)text);
		if (!n) {
			*text = '?';
			n = 1;
		}
	}
}
