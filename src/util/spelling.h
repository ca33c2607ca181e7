// SPDX-License-Identifier: MIT
/* Which word of a list a person meant who typed another. Pure. */
#pragma once

enum { SPELLING_MAX = 24 }; /* letters: a word of so many resembles none */

/* The nearest of @words (it ends with NULL) to @word: at most a third of its letters, and at most
 * two, must be put in, left out or changed; two neighbours that changed places count as one.
 * NULL: it resembles none. A word of the list is the nearest to itself. */
const char *spelling_nearest(const char *word, const char *const *words);
