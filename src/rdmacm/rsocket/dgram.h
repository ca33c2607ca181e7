// SPDX-License-Identifier: MIT
/* Datagrams, in the protocol of rdma-core's rsockets. A socket is a UDP socket and, for each
 * address of this host from which it has sent, a UD queue pair (dgram_qp.h). The first datagram to
 * a peer goes by UDP, behind a header with the sender's queue pair; the peer answers with its own,
 * and what follows goes from queue pair to queue pair. What finds no way there goes by UDP: from an
 * address of no device, or longer than the device's MTU. So does what is for a peer that has said
 * nothing for a second, so that one that was started anew, with another queue pair, is found.
 *
 * A peer's queue pair is believed only of the address and port from which the kernel got a UDP
 * packet; what comes from another one in that peer's name is dropped. Under the socket's lock. */
#pragma once
#include "rdmacm/rsocket/sock.h"

enum { DGRAM_MAX = 2048 }; /* bytes of a datagram, as rdma-core's receive them */

int dgram_open(struct sock *s, int domain);
void dgram_free(struct sock *s);
int dgram_connect(struct sock *s, const struct sockaddr *to, socklen_t len);
/* EDESTADDRREQ, EMSGSIZE, EAGAIN: there is no room to send from. */
int dgram_send(struct sock *s, const struct msghdr *m, size_t *out);
/* EAGAIN: none is there. */
int dgram_receive(struct sock *s, struct msghdr *m, bool peek, size_t *out);
void dgram_progress(struct sock *s);
bool dgram_readable(const struct sock *s);
bool dgram_can_send(const struct sock *s);
void dgram_arm(struct sock *s);
void dgram_drain(struct sock *s);
int dgram_fd(const struct sock *s); /* readable when a queue pair has an event */
