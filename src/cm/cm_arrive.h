// SPDX-License-Identifier: MIT
/* What comes to this process: connections to its names, requests that make new ids, MADs that a
 * process has read from a network for it. */
#pragma once
#include "cm/cm_state.h"

int cm_arrive_begin(void); /* once after cm_start(), under cm.lock: the name of the process */
