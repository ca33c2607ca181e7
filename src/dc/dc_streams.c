// SPDX-License-Identifier: MIT
#include "dc/dc_streams.h"

bool dc_streams_stopped(const struct dc_streams *s, uint16_t id)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->id[i] == id)
			return true;
	return false;
}

bool dc_streams_stop(struct dc_streams *s, uint16_t id)
{
	if (s->n + 1 >= s->most)
		return false;
	s->id[s->n++] = id;
	return true;
}

bool dc_streams_reset(struct dc_streams *s, uint16_t id)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->id[i] == id) {
			s->id[i] = s->id[--s->n];
			return true;
		}
	return false;
}
