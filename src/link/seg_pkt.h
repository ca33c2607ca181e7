// SPDX-License-Identifier: MIT
/* Segments as packets and back: the fields of a segment that stands for one packet, which is what
 * a network carries. Payload, addresses and flags beyond the BTH's are the caller's. Pure. */
#pragma once
#include "link/seg.h"
#include "wire/packet.h"

/* All but the payload: payload NULL, payload_len as the segment's. */
void seg_to_pkt(const struct seg *s, struct pkt *out);
/* npsn is 1; of a READ request only the QP knows the right number. *out borrows the payload. */
void seg_from_pkt(const struct pkt *p, struct seg *out);
