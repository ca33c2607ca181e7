// SPDX-License-Identifier: MIT
/* A page of HTML about a trace: a table of the connections, and what the page's own script draws:
 * each packet between its two ends, in the order of time. The page asks no other for anything. */
#pragma once
#include <stdio.h>
#include "flows.h"

enum { PAGE_HOPS = 20000 /* a page with more is slow to open; the table counts all */ };

/* Errors are ferror()'s. @name: of the file, for the title. */
void page_write(const struct flows *f, const struct capture *c, const char *name, FILE *to);
