// SPDX-License-Identifier: MIT
/* The SOFTHCA_ variables as a person typed them. */
#pragma once

/* The first call of a process says, by one line on stderr each (util/log.h, warn): each name that
 * is nearly one of ours, each word that will not be heeded. Names that resemble none are left
 * alone: a script may have its own. What a value means in more than a word is judged by those who
 * read it. Any thread. */
void settings_check(void);
