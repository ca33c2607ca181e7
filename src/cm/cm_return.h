// SPDX-License-Identifier: MIT
/* MADs of this process that came back from a network. */
#pragma once
#include "cm/cm_state.h"

void cm_return_begin(void); /* a network is open; under cm.lock; again is fine */
