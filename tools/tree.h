// SPDX-License-Identifier: MIT
/* Writes a tree of small files below one folder. Paths are relative, missing folders are made on
 * the way. The first error is kept and makes all that follows do nothing: check it at the end. */
#pragma once
#include <stdint.h>

struct tree {
	int dir;
	int err; /* positive errno */
	uint64_t sum; /* of all paths and texts so far: equal trees have equal sums */
};

/* A file of one line, readable by all. */
void tree_put(struct tree *t, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void tree_link(struct tree *t, const char *path, const char *target);
void tree_folder(struct tree *t, const char *path);
/* The next writes go below @path, given like printf. */
struct tree tree_below(struct tree *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tree_close(struct tree *below, struct tree *t); /* hands @below's error to @t */
