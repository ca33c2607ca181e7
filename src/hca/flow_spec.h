// SPDX-License-Identifier: MIT
/* Flow specifications, which stand behind the struct ibv_flow_attr of ibv_create_flow(), checked
 * and copied once into matches and actions. The frame's headers are written as a filter of
 * <infiniband/verbs.h>, and a match compares that under a mask; a header that the frame does not
 * have matches no filter. Pure, but for the reasons. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "wire/frame.h"

struct flow_counters;

union flow_filter {
	uint8_t bytes[sizeof(struct ibv_flow_ipv6_filter)]; /* the largest */
	struct ibv_flow_eth_filter eth;
	struct ibv_flow_ipv4_ext_filter ip4; /* begins as ibv_flow_ipv4_filter */
	struct ibv_flow_ipv6_filter ip6;
	struct ibv_flow_tcp_udp_filter ports;
	struct ibv_flow_esp_filter esp;
	struct ibv_flow_gre_filter gre;
	struct ibv_flow_mpls_filter mpls;
	struct ibv_flow_tunnel_filter tunnel;
};

struct flow_match {
	uint16_t type; /* IBV_FLOW_SPEC_*, without _INNER */
	uint8_t size; /* bytes of the filter that are compared */
	bool inner, tagged; /* of a tunnel's inner frame; the mask has a VLAN tag */
	union flow_filter val, mask; /* val: already masked */
};

struct flow_actions {
	bool drop;
	bool tagged;
	uint32_t tag; /* 24 bits */
	struct flow_counters *counters; /* or NULL */
};

enum { FLOW_SPECS = 16 };

struct flow_specs {
	unsigned int n;
	struct flow_match match[FLOW_SPECS];
	struct flow_actions actions;
};

/* Reads the specs behind @attr: EINVAL, EOPNOTSUPP with a reason. */
int flow_specs_read(const struct ibv_flow_attr *attr, struct flow_specs *out);
bool flow_specs_match(const struct flow_match *m, unsigned int n, const struct frame *f);
