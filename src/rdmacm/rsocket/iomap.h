// SPDX-License-Identifier: MIT
/* The I/O map: memory of riomap(), announced with the next thing sent. */
#pragma once
#include "rdmacm/rsocket/ring.h"

int iomap_tell(struct sock *s, bool nonblock); /* announces what the peer does not know yet */
