// SPDX-License-Identifier: MIT
/* What became of the packet that this thread works on, in a few words, for traces. The function
 * that decides it calls verdict_say(), on paths that are slow anyway; a packet without a verdict
 * was accepted. */
#pragma once

extern __thread const char *verdict_said __attribute__((tls_model("initial-exec")));

static inline void verdict_say(const char *what)
{
	verdict_said = what;
}
