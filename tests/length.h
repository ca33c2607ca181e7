// SPDX-License-Identifier: MIT
/* How long a test shall run, from the environment: tests/README.md. */
#pragma once
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool length_full(void)
{
	const char *length = getenv("SOFTHCA_LENGTH");

	return length && !strcmp(length, "full");
}

/* A run of full length, or of as many seconds, goes over @whole; SOFTHCA_PART=2/6 asks for a sixth
 * of that. At least 1. */
static inline unsigned int length_part(unsigned int whole)
{
	const char *part = getenv("SOFTHCA_PART"), *slash = part ? strchr(part, '/') : NULL;
	unsigned long of = slash ? strtoul(slash + 1, NULL, 10) : 1;

	return of > 1 && of < whole ? (unsigned int)(whole / of) : of > 1 ? 1 : whole;
}

/* How much of @whole lies before this part. */
static inline unsigned int length_before(unsigned int whole)
{
	const char *part = getenv("SOFTHCA_PART");
	unsigned long nth = part && strchr(part, '/') ? strtoul(part, NULL, 10) : 1;

	return nth > 1 ? (unsigned int)(nth - 1) * length_part(whole) : 0;
}
