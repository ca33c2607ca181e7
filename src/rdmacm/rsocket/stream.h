// SPDX-License-Identifier: MIT
/* Bytes in order, over a ring (ring.h). Under the lock, which is given up while a thread waits. */
#pragma once
#include "rdmacm/rsocket/ring.h"

int stream_opened(struct sock *s); /* ENOTCONN: nobody has connected it */
/* *@out: how many bytes; an error only if there are none. */
int stream_send(struct sock *s, const struct msghdr *m, int flags, size_t *out);
int stream_receive(struct sock *s, struct msghdr *m, int flags, size_t *out);
