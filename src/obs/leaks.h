// SPDX-License-Identifier: MIT
/* SOFTHCA_EXPLAIN=leaks (read once): objects that are alive when their context is closed, or at
 * exit(), are named on stderr, each with the place in the program that made it. Otherwise the
 * calls here do nothing. Any thread; leaf lock. A forked child does not name its parent's
 * objects. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* An object was made on @ctx (NULL: on none that is ever closed); @what and @number name it: "QP",
 * 0x812; NULL: it has no number. Returns what leaks_gone() takes. */
uint64_t leaks_made(const void *ctx, const char *what, const uint32_t *number);
void leaks_gone(uint64_t leak); /* 0: no effect */
/* @ctx is being closed: what is alive on it is named, once. */
void leaks_closed(const void *ctx, const char *device);
