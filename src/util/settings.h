// SPDX-License-Identifier: MIT
/* Warns of SOFTHCA_ variables that a person has mistyped. */
#pragma once

/* The first call of a process writes one line on stderr (util/log.h, warn) for each variable whose
 * name is nearly one of ours and for each value that is none of the words its variable takes. Names
 * that resemble none of ours are left alone: a script may have its own. Values that are more than
 * one word are checked where they are parsed. Any thread. */
void settings_check(void);
