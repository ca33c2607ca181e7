// SPDX-License-Identifier: MIT
#include "obs/verdict.h"
#include <stddef.h>

__thread const char *verdict_said __attribute__((tls_model("initial-exec")));
