// SPDX-License-Identifier: MIT
/* Calls of librdmacm that are not built yet. */
#include "verbs/unbuilt.h"

/* Of v65. */
RETURNS_MINUS1(repoll_create)
RETURNS_MINUS1(repoll_ctl)
RETURNS_MINUS1(repoll_wait)
