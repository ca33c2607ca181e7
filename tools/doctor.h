// SPDX-License-Identifier: MIT
/* The findings of `softhca doctor`: a line each on stdout, "ok", "note" (it works, but) or "wrong"
 * (it will not), the matter, what was found, and, behind a semicolon, what to do. */
#pragma once
#include <stdbool.h>

enum finding { FINDING_OK, FINDING_NOTE, FINDING_WRONG };

void doctor_say(enum finding what, const char *matter, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Is @program one that `softhca run` reaches: linked dynamically, without paths or rights of its
 * own, content with our versions? @libraries: the folder of ours. */
void doctor_program(const char *program, const char *libraries);
void doctor_network(void); /* device, MTU, UDP 4791, firewall */
