// SPDX-License-Identifier: MIT
/* What became of the packet that this thread is working on, in a few words, for traces: said by who
 * decides it, on paths that are slow anyway. Nothing said means that it was taken. */
#pragma once

extern __thread const char *verdict_said __attribute__((tls_model("initial-exec")));

static inline void verdict_say(const char *what)
{
	verdict_said = what;
}
