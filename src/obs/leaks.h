// SPDX-License-Identifier: MIT
/* SOFTHCA_EXPLAIN=leaks (read once): objects that are alive when their context is closed, or at
 * exit(), are named on stderr, each with the place in the program that made it. Otherwise the
 * calls here do nothing. Any thread; leaf lock. A forked child does not name its parent's
 * objects. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* @obj was made on @ctx; @what and @number name it: "QP", 0x812. */
void leaks_made(const void *obj, const void *ctx, const char *what, uint32_t number);
void leaks_gone(const void *obj); /* unknown ones are fine */
/* @ctx is being closed: what is alive on it is named, once. */
void leaks_closed(const void *ctx, const char *device);
