// SPDX-License-Identifier: MIT
/* What the library explains (SOFTHCA_EXPLAIN=FILE) while a case runs, for each side apart. */
#pragma once
#include <stdbool.h>

enum said_side { SAID_NEAR, SAID_FAR };

/* Before the library says its first word in this process. */
void said_begin(void);
const char *said_file(enum said_side side);

/* Has it been said by now? For what another process causes: ask again until it is. */
bool said_yet(enum said_side side, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The side has said exactly this sentence, numbers and all; fails with what it has said instead.
 * A '#' in the text stands for any number: for those that no public call tells. */
void said_want(enum said_side side, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
