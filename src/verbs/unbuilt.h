// SPDX-License-Identifier: MIT
/* One row for each public call that is not built yet: it answers EOPNOTSUPP by the convention of
 * that very call, with a reason that names it. A row is a whole definition. It ignores its
 * arguments, so it takes none: on every ABI that Linux has the caller passes and removes them,
 * and no row can crash on a bad pointer. Include no header that declares the same names. */
#pragma once
#include <sys/types.h>
#include "verbs/export.h"

#define UNBUILT_CALL(type, name, ...)                                                              \
	EXPORT type name(void);                                                                    \
	EXPORT type name(void)                                                                     \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

#define RETURNS_NULL(name)                                                                         \
	UNBUILT_CALL(void *, name, return null_errno(softhca_unbuilt(#name, EOPNOTSUPP));)
#define RETURNS_ERRNO(name)	UNBUILT_CALL(int, name, return softhca_unbuilt(#name, EOPNOTSUPP);)
#define RETURNS_NEG_ERRNO(name) UNBUILT_CALL(int, name, return -softhca_unbuilt(#name, EOPNOTSUPP);)
#define RETURNS_MINUS1(name)                                                                       \
	UNBUILT_CALL(int, name, return minus1_errno(softhca_unbuilt(#name, EOPNOTSUPP));)
#define RETURNS_MINUS1_LONG(name) /* ssize_t, size_t, off_t */                                     \
	UNBUILT_CALL(ssize_t, name, return minus1_errno(softhca_unbuilt(#name, EOPNOTSUPP));)
#define RETURNS_ZERO(name) /* numbers without an error value */                                    \
	UNBUILT_CALL(unsigned long, name, softhca_unbuilt(#name, EOPNOTSUPP); return 0;)
#define RETURNS_NOTHING(name) UNBUILT_CALL(void, name, softhca_unbuilt(#name, EOPNOTSUPP);)
