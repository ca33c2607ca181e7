// SPDX-License-Identifier: MIT
/* MLX5DV_QP_CREATE_TUNNEL_OFFLOADS: of a frame in VXLAN or GRE the checksums inside count. */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <string.h>
#include "verbs/ether.h"

enum kind { PLAIN, VXLAN, GRE, KINDS };
enum { L2 = 14, L3 = 20, L4 = 8, HEAD = 8 /* of either tunnel */ };

static struct peer_dev dev;
static uint32_t flags; /* MLX5DV_QP_CREATE_* */

static struct ibv_qp *make(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
					  .create_flags = flags };

	return mlx5dv_create_qp(ctx, attr, &dv);
}

/* Returns the length; *inner: where the IP header inside begins, or the only one. */
static size_t build(enum kind k, uint8_t *out, size_t *inner)
{
	static const uint8_t heads[KINDS][HEAD] = {
		[VXLAN] = { 8, 0, 0, 0, 0x12, 0x34, 0x56, 0 }, [GRE] = { 0x20, 0, 8, 0, 0, 0, 0, 9 }
	};
	struct ether_frame in = { .dst = 1, .ip = 4, .proto = 6, .sport = 5, .len = 99 };
	uint8_t frame[ETHER_ROOM], body[ETHER_ROOM];
	size_t len = ether_build(&in, k == PLAIN ? out : frame), skip = k == GRE ? L2 : 0;
	struct ether_frame around = {
		.dst = 1, .ip = 4, .proto = k == GRE ? 47 : 17, .dport = 4789, .body = body
	};

	*inner = L2;
	if (k == PLAIN)
		return len;
	memcpy(body, heads[k], HEAD);
	memcpy(body + HEAD, frame + skip, len - skip);
	around.len = (uint16_t)(HEAD + len - skip);
	*inner = L2 + L3 + (k == GRE ? 0 : L4) + HEAD + (k == GRE ? 0 : L2);
	return ether_build(&around, out);
}

static bool right(struct ether *a, struct ether *b, const uint8_t *bytes, size_t len)
{
	struct ether_got got;

	ether_send_bytes(a, bytes, len, 0);
	ether_want(b, &got);
	want_eq(got.len, len);
	return got.wc_flags & IBV_WC_IP_CSUM_OK;
}

/* One bit of the payload, the header inside, and the header outside turned over, and back. */
static void checksums(int with)
{
	struct ether_rule r = ether_rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ether a, b;
	struct ibv_flow *flow;

	peer_open(&dev);
	ether_open(&dev, 0, &a);
	flags = MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC |
		(with ? MLX5DV_QP_CREATE_TUNNEL_OFFLOADS : 0);
	ether_make = make;
	ether_open(&dev, 0, &b);
	ether_recv(&b, ETHER_SLOTS);
	ether_spec_dst(&r, 1);
	flow = ether_steer(&b, &r);
	for (enum kind k = PLAIN; k < KINDS; k++) {
		bool counts = with && k != PLAIN;
		uint8_t bytes[ETHER_ROOM];
		size_t inner, len = build(k, bytes, &inner);

		peer_note("kind %d", k);
		/* of GRE nothing outside has a checksum that could be right in whole */
		want_eq(right(&a, &b, bytes, len), k != GRE || with);
		bytes[inner + 8] ^= 1; /* its TTL */
		want_eq(right(&a, &b, bytes, len), false);
		bytes[inner + 8] ^= 1;
		bytes[len - 1] ^= 1;
		want_eq(right(&a, &b, bytes, len), false);
		bytes[len - 1] ^= 1;
		bytes[L2 + 8] ^= 1;
		want_eq(right(&a, &b, bytes, len), counts);
	}
	want_eq(ibv_destroy_flow(flow), 0);
	ether_close(&a);
	ether_close(&b);
	peer_close(&dev);
}

static const struct test_case cases[] = { CASE_ARG(checksums, false), CASE_ARG(checksums, true) };

int main(void)
{
	return CASES_RUN(cases);
}
