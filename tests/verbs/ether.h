// SPDX-License-Identifier: MIT
/* RAW_PACKET queue pairs for tests: a port sends and receives Ethernet frames in memory of its own;
 * frames are put together from a description. */
#pragma once
#include "verbs/cases.h"

enum { ETHER_SLOTS = 64, ETHER_ROOM = 2048 }; /* receives and sends of a port; bytes of each */

struct ether {
	struct ibv_qp *qp;
	struct ibv_cq_ex *cq; /* with flow tag and VLAN */
	struct ibv_mr *mr;
	uint8_t *mem; /* ETHER_SLOTS of receives, then one of sends */
	unsigned int posted;
};

/* A frame: zeroes are left out or take what is usual. */
struct ether_frame {
	uint8_t dst, src; /* last byte of a MAC 02:00:00:00:00:xx */
	bool multicast; /* 01:00:5e:00:00:dst instead */
	uint16_t vlan; /* TCI */
	uint16_t type; /* other than IP */
	uint8_t ip; /* 4, 6 */
	uint8_t proto; /* 17 when ip is set; 6, 47, 50 */
	uint8_t from, to; /* last bytes of the addresses 10.0.0.x, fd00::x */
	uint8_t tos, ttl;
	uint32_t label; /* IPv6 */
	uint16_t sport, dport;
	const uint8_t *body; /* behind the last header; NULL: a pattern */
	uint16_t len; /* bytes of body */
};

size_t ether_build(const struct ether_frame *f, uint8_t *out); /* its length; checksums right */
void ether_mac(uint8_t last, uint8_t mac[6]);

/* How ether_open() makes queue pairs. NULL: ibv_create_qp_ex(). */
extern struct ibv_qp *(*ether_make)(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
/* In RTS; @flags: IBV_QP_CREATE_*. */
void ether_open(struct peer_dev *d, uint32_t flags, struct ether *e);
void ether_close(struct ether *e);
void ether_recv(struct ether *e, unsigned int n); /* posts that many */
void ether_send_bytes(struct ether *e, const void *frame, size_t len, unsigned int send_flags);
void ether_send(struct ether *e, const struct ether_frame *f); /* completes it too */

struct ether_got {
	const uint8_t *p;
	uint32_t len, tag;
	uint16_t vlan;
	unsigned int wc_flags;
};
bool ether_poll(struct ether *e, struct ether_got *got, int ms);
void ether_want(struct ether *e, struct ether_got *got); /* one must come */
void ether_want_none(struct ether *e); /* nothing is there: all that was sent has been steered */

/* A rule from specs that stand one behind the other. */
struct ether_rule {
	struct ibv_flow_attr attr;
	uint8_t specs[512];
	size_t at;
};
struct ether_rule ether_rule(enum ibv_flow_attr_type type, uint16_t priority);
void ether_spec(struct ether_rule *r, const void *spec, size_t size);
void ether_spec_dst(struct ether_rule *r, uint8_t last); /* ETH: that destination */
struct ibv_flow *ether_steer(struct ether *e, struct ether_rule *r); /* must work */
