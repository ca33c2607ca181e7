// SPDX-License-Identifier: MIT
#include <stdarg.h>
#include <stdio.h>
#include "obs/explain.h"
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
