// SPDX-License-Identifier: MIT
/* The streams of a DC initiator that are in error. Pure, no lock: the turn guards it. All zero is
 * an initiator without streams: its first error is its end. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "hca/limits.h"

struct dc_streams {
	uint32_t most; /* with so many in error the initiator is in error; 0: no streams */
	uint32_t n;
	uint16_t id[1 << LIMIT_DCI_ERRORED_LOG];
};

bool dc_streams_stopped(const struct dc_streams *s, uint16_t id);
/* @id is in error from now on. False: with it there are too many. */
bool dc_streams_stop(struct dc_streams *s, uint16_t id);
/* It is usable again. False: it was not in error. */
bool dc_streams_reset(struct dc_streams *s, uint16_t id);
