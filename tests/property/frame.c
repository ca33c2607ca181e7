// SPDX-License-Identifier: MIT
/* RAW_PACKET: a side has an address of its own in each episode, and a flow rule brings what is sent
 * to it to its QP, from whichever process. */
#include <errno.h>
#include <string.h>
#include "property/side.h"

struct rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
};

static void mac_of(const struct side *s, unsigned int side, uint8_t mac[6])
{
	memcpy(mac, (uint8_t[6]){ 2, 0, 0, (uint8_t)s->ep, (uint8_t)s->link, (uint8_t)side }, 6);
}

static void refused(struct side *s, struct rule *r)
{
	struct rule bad = *r;

	bad.attr.port = 9;
	errno = 0;
	must(s, !ibv_create_flow(s->qp, &bad.attr));
	must_eq(s, errno, EINVAL);
	bad = *r;
	bad.eth.size = 3;
	errno = 0;
	must(s, !ibv_create_flow(s->qp, &bad.attr));
	must_eq(s, errno, EINVAL);
}

void frame_up(struct side *s)
{
	uint8_t *head = s->mem + FRAME_AT;
	struct rule r = { .attr = { .type = IBV_FLOW_ATTR_NORMAL,
				    .size = sizeof(r),
				    .num_of_specs = 1,
				    .priority = (uint16_t)(s->ep % 3),
				    .port = 1 },
			  .eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(r.eth) } };

	if (s->v.l->type != IBV_QPT_RAW_PACKET)
		return;
	mac_of(s, s->s, r.eth.val.dst_mac);
	memset(r.eth.mask.dst_mac, 255, 6);
	refused(s, &r);
	s->flow = ibv_create_flow(s->qp, &r.attr);
	if (!s->flow)
		board_fail("ibv_create_flow: errno %d", errno);
	mac_of(s, !s->s, head);
	mac_of(s, s->s, head + 6);
	head[12] = 0x88; /* for experiments */
	head[13] = 0xb5;
}

void frame_end(struct side *s)
{
	if (s->flow)
		must_eq(s, ibv_destroy_flow(s->flow), 0);
	s->flow = NULL;
}

struct ibv_sge frame_head(const struct side *s)
{
	return (struct ibv_sge){ (uintptr_t)s->mem + FRAME_AT, FRAME_HEAD, s->mr->lkey };
}
