// SPDX-License-Identifier: MIT
/* Messages through a contact's connection, without blocking, and the descriptors that go with them.
 * Under host->control, but for contact_talk_share(). */
#pragma once
#include <stdbool.h>
#include <sys/types.h>
#include "peers/contact_message.h"

struct contact;

enum { CONTACT_FDS = 6 /* descriptors of one message, at most */ };

/* A message of @kind with the fields that every message has of its sender. */
struct contact_message contact_talk_message(const struct contact *c, enum contact_kind kind);
/* @n descriptors, which stay the caller's. EAGAIN: the socket is full. Or another errno. */
int contact_talk_send(int conn, const struct contact_message *m, const int *fds, unsigned int n);
/* *n: how many descriptors the caller wants, at most CONTACT_FDS, then how many came, which are its
 * to close, also after an error; the kernel drops the others. *from: the sender's pid, where the
 * kernel was asked to name it (contact_name()); NULL: it was not. EAGAIN: no message. ECONNRESET:
 * the peer has left. EPROTO: the bytes are no message. EMFILE: some that were wanted are lost,
 * since this process has none left. */
int contact_talk_receive(int conn, struct contact_message *m, int *fds, unsigned int *n,
			 pid_t *from);
bool contact_talk_unread(int conn); /* the peer has not taken all that was sent */
void contact_talk_close(const int *fds, unsigned int n); /* -1 are fine */

/* Send a message of @kind with no other fields, one with a ring, one about a key. Errors as of
 * contact_talk_send(). */
int contact_talk_say(const struct contact *c, enum contact_kind kind);
int contact_talk_ring(const struct contact *c, uint32_t size, int fd);
/* Any thread. @fd: -1 none. */
int contact_talk_share(const struct contact *c, enum contact_kind kind,
		       const struct share_message *s, int fd);
