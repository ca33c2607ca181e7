// SPDX-License-Identifier: MIT
/* What a program must give to a call, and has not. */
#pragma once
#include "verbs/export.h"

/* EINVAL with a reason where @p is NULL. */
static inline int given(const void *p, const char *call, const char *what)
{
	return p ? 0 : softhca_refuse(EINVAL, "%s: %s is NULL; give one", call, what);
}
