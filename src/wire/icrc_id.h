// SPDX-License-Identifier: MIT
/* Computes the IPv4 identification from an ICRC. The ICRC covers the identification, which a UDP
 * socket does not show to its reader. CRCs are affine: the difference between the ICRC that came
 * and the one computed with identification 0 depends on the identification and its place alone, and
 * can be solved for it. One of 2^16 damaged packets has a solution all the same: the caller has to
 * judge by other means whether the identification is the sender's next. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* @diff: received ^ computed with identification 0. @after: bytes from behind the identification to
 * the end of what the ICRC covers (at most 16383). False: no identification explains @diff. */
bool icrc_solve_id(uint32_t diff, size_t after, uint16_t *id);
