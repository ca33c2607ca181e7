// SPDX-License-Identifier: MIT
#include <stdarg.h>
#include <stdio.h>
#include "obs/explain.h"
#include "util/arena.h"
#include "verbs/export.h"

EXPORT int softhca_refuse(int err, const char *fmt, ...)
{
	char text[EXPLAIN_TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return refuse(err, "%s", text);
}

EXPORT int softhca_unbuilt(const char *call, int err)
{
	return refuse(err,
		      "%s: this version of softhca does not have it, and no capability says so; "
		      "use another call",
		      call);
}

EXPORT int softhca_arena_take(size_t len, struct arena_part **out)
{
	return arena_take(len, out);
}

EXPORT void *softhca_arena_at(const struct arena_part *p)
{
	return arena_at(p);
}

EXPORT void softhca_arena_give(struct arena_part *p)
{
	arena_give(p);
}
