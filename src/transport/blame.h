// SPDX-License-Identifier: MIT
/* The sentences that say why a completion failed (docs/design/explanations.md). Each function
 * records one reason (obs/explain.h) and returns the record's number. */
#pragma once
#include "transport/fate.h"
#include "transport/gather.h"
#include "transport/tqp.h"

/* A WQE that cannot be sent. @g: the refused SGE, or NULL. */
uint64_t blame_wqe(const struct tqp *q, const struct wqe *w, enum verdict v,
		   const struct gather *g);
/* A WQE that is not any more what was started. */
uint64_t blame_changed(const struct tqp *q, const struct wqe *w);
/* A bind, local invalidation or UMR that failed; @why: the text that mw_bind() and the like
 * return. */
uint64_t blame_window(const struct tqp *q, const struct wqe *w, const char *why);
/* The peer refused the entry @e by a NAK, gave an answer that does not fit, or did not answer. */
uint64_t blame_peer(struct tqp *q, const struct sent *e, enum verdict v);

/* The functions below are the responder's. They also keep the grounds, which its peer is told
 * (q->rsp.grounds). */
/* The request @s is refused on the grounds @what (not enabled, alignment, length, depth). */
uint64_t blame_request(struct tqp *q, const struct seg *s, struct grounds what);
/* The key that @s asks to invalidate may not be invalidated; @why: a text. */
uint64_t blame_invalidate(struct tqp *q, const struct seg *s, const char *why);
/* The request @s is refused because of its key, as @why says; KEY_OK: the memory is not mapped. */
uint64_t blame_rkey(struct tqp *q, const struct seg *s, enum key_verdict why,
		    const struct key_ask *ask);
/* The receive WQE is too small for the message: it has @have bytes, the message needs @need. */
uint64_t blame_short(struct tqp *q, const struct seg *s, uint64_t need, uint64_t have);
/* An SGE of the receive WQE is refused; @g->why KEY_OK: its memory is not mapped. */
uint64_t blame_receive(struct tqp *q, const struct gather *g);
/* The same of the receive @w of a work queue. */
uint64_t blame_wq_receive(const struct wq *wq, const struct rwqe *w, const struct gather *g);
/* It is too small for a frame of @len bytes at its byte @at; of a striding work queue all may be.
 */
uint64_t blame_wq_short(const struct wq *wq, const struct rwqe *w, uint64_t at, uint32_t len);
const char *blame_name(uint8_t op); /* BTH opcode: "RDMA WRITE" */
