// SPDX-License-Identifier: MIT
/* Members of an XRC domain: the processes that have it open.
 *
 * A member that lives has a record lock (fcntl) on its byte of the page's descriptor, which the
 * kernel drops when the last thread of the process has ended: the member of a byte without a lock
 * no longer touches the page. A member's word is its byte's index + 1 with a generation above,
 * which differs from that of every earlier member on the byte. */
#pragma once
#include "xrc/xrc_domain.h"

/* domain->lock, and behind it the record lock on one more byte: the table of members, creation,
 * opening and destruction of target QPs. An errno with a reason: ETIMEDOUT (another member keeps
 * it), ENOLCK, ...; never EINTR. */
int xrc_member_lock(struct xrc_domain *d);
void xrc_member_unlock(struct xrc_domain *d);
/* Under that lock: this process takes a byte and a word. ENOMEM: all bytes are taken. */
int xrc_member_enlist(struct xrc_domain *d);
bool xrc_member_lives(const struct xrc_domain *d, uint32_t word);
