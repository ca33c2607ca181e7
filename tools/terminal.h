// SPDX-License-Identifier: MIT
/* Text that another user, a file or a packet has chosen, on its way to a terminal. */
#pragma once

/* Control characters, and bytes that are no UTF-8, become '?'. */
void terminal_clean(char *text);
