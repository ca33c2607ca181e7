// SPDX-License-Identifier: MIT
#include <string.h>
#include "obs/counters.h"

static const struct {
	const char *name;
	enum counter_folder folder;
} table[COUNTER_N] = {
#define X(constant, name, folder) [COUNTER_##constant] = { #name, COUNTER_##folder },
	COUNTERS(X)
#undef X
};

uint64_t counters_read(const struct counters *c, enum counter which)
{
	uint64_t n = load_relaxed(&c->v[which]);

	return which == COUNTER_PORT_RCV_DATA || which == COUNTER_PORT_XMIT_DATA ? n / 4 : n;
}

const char *counters_name(enum counter which)
{
	return which < COUNTER_N ? table[which].name : NULL;
}

enum counter_folder counters_folder(enum counter which)
{
	return table[which].folder;
}

enum counter counters_find(const char *name)
{
	for (int i = 0; i < COUNTER_N; i++)
		if (!strcmp(name, table[i].name))
			return (enum counter)i;
	return COUNTER_N;
}
