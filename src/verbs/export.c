// SPDX-License-Identifier: MIT
#include "obs/explain.h"
#include "verbs/export.h"

EXPORT int softhca_unbuilt(const char *call, int err)
{
	return refuse(err,
		      "%s: this version of softhca does not have it, and no capability says so",
		      call);
}
