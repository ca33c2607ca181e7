// SPDX-License-Identifier: MIT
/* The SOFTHCA_ variables as a person typed them. */
#pragma once

/* One line on stderr for each name that is nearly one of ours, and each value that will not be
 * heeded. Names that resemble none are left alone: a script may have its own. */
void settings_check(void);
