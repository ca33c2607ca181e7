// SPDX-License-Identifier: MIT
#include "hca/flow_spec.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "obs/explain.h"
#include "util/be.h"

#define TAG_MAX 0xffffffU /* 24 bits, which a completion has room for */

/* Bits of ibv_flow_ipv4_ext_filter.flags: the fragment flags of an IPv4 header. */
enum { IP4_DONT_FRAG = 2, IP4_MORE_FRAG = 4 };

static const struct kind {
	uint16_t type, size; /* of the whole spec */
	uint8_t filter, val, mask; /* bytes of the filter; where its two copies stand */
	bool inner; /* may carry IBV_FLOW_SPEC_INNER */
	const char *name;
} kinds[] = {
#define KIND(type, spec, filter, inner)                                                            \
	{                                                                                          \
		IBV_FLOW_SPEC_##type, sizeof(struct ibv_flow_spec_##spec),                         \
			sizeof(struct ibv_flow_##filter##_filter),                                 \
			offsetof(struct ibv_flow_spec_##spec, val),                                \
			offsetof(struct ibv_flow_spec_##spec, mask), inner, #type                  \
	}
	KIND(ETH, eth, eth, true),	   KIND(IPV4, ipv4, ipv4, true),
	KIND(IPV6, ipv6, ipv6, true),	   KIND(IPV4_EXT, ipv4_ext, ipv4_ext, true),
	KIND(ESP, esp, esp, true),	   KIND(TCP, tcp_udp, tcp_udp, true),
	KIND(UDP, tcp_udp, tcp_udp, true), KIND(VXLAN_TUNNEL, tunnel, tunnel, false),
	KIND(GRE, gre, gre, false),	   KIND(MPLS, mpls, mpls, true),
#undef KIND
};

static const struct kind *kind_of(uint32_t type)
{
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].type == (type & ~(uint32_t)IBV_FLOW_SPEC_INNER) &&
		    (kinds[i].inner || kinds[i].type == type))
			return &kinds[i];
	return NULL;
}

static int wrong_size(const char *name, uint16_t size, size_t right)
{
	return refuse(EINVAL,
		      "ibv_create_flow: a spec of type %s says size %u, it has %zu B; set size "
		      "to that of its struct",
		      name, size, right);
}

static int read_match(const uint8_t *spec, uint32_t type, uint16_t size, struct flow_specs *out)
{
	const struct kind *k = kind_of(type);
	struct flow_match *m = &out->match[out->n];

	if (!k)
		return refuse(EINVAL,
			      "ibv_create_flow: spec type 0x%x is not known here; see enum "
			      "ibv_flow_spec_type",
			      type);
	if (size != k->size)
		return wrong_size(k->name, size, k->size);
	m->type = k->type; /* all else is zero, holes too: rules are compared as bytes */
	m->size = k->filter;
	m->inner = type & IBV_FLOW_SPEC_INNER;
	memcpy(m->val.bytes, spec + k->val, k->filter);
	memcpy(m->mask.bytes, spec + k->mask, k->filter);
	for (unsigned int i = 0; i < k->filter; i++)
		m->val.bytes[i] &= m->mask.bytes[i];
	m->tagged = k->type == IBV_FLOW_SPEC_ETH && m->mask.eth.vlan_tag;
	out->n++;
	return 0;
}

static int read_tag(const uint8_t *spec, uint16_t size, struct flow_actions *a)
{
	struct ibv_flow_spec_action_tag tag;

	if (size != sizeof(tag))
		return wrong_size("ACTION_TAG", size, sizeof(tag));
	memcpy(&tag, spec, sizeof(tag));
	if (tag.tag_id > TAG_MAX)
		return refuse(EINVAL,
			      "ibv_create_flow: tag_id 0x%x, completions have room for 24 bits; "
			      "use 0..0x%x",
			      tag.tag_id, TAG_MAX);
	a->tagged = true;
	a->tag = tag.tag_id;
	return 0;
}

static int read_count(const uint8_t *spec, uint16_t size, struct flow_actions *a)
{
	struct ibv_flow_spec_counter_action count;

	if (size != sizeof(count))
		return wrong_size("ACTION_COUNT", size, sizeof(count));
	memcpy(&count, spec, sizeof(count));
	if (!count.counters || a->counters)
		return refuse(EINVAL, "ibv_create_flow: %s; give one ACTION_COUNT with counters",
			      a->counters ? "there are two ACTION_COUNT specs"
					  : "the counters of an ACTION_COUNT are NULL");
	a->counters = (struct flow_counters *)count.counters;
	return 0;
}

static int read_spec(const uint8_t *spec, uint32_t type, uint16_t size, struct flow_specs *out)
{
	switch (type) {
	case IBV_FLOW_SPEC_ACTION_TAG:
		return read_tag(spec, size, &out->actions);
	case IBV_FLOW_SPEC_ACTION_DROP:
		out->actions.drop = true;
		return size == sizeof(struct ibv_flow_spec_action_drop)
			       ? 0
			       : wrong_size("ACTION_DROP", size,
					    sizeof(struct ibv_flow_spec_action_drop));
	case IBV_FLOW_SPEC_ACTION_COUNT:
		return read_count(spec, size, &out->actions);
	case IBV_FLOW_SPEC_ACTION_HANDLE:
		return refuse(EOPNOTSUPP,
			      "ibv_create_flow: ACTION_HANDLE carries out an IPsec action, and "
			      "this device makes none (ibv_create_flow_action_esp); leave it out");
	default:
		return read_match(spec, type, size, out);
	}
}

int flow_specs_read(const struct ibv_flow_attr *attr, struct flow_specs *out)
{
	const uint8_t *p = (const uint8_t *)(attr + 1);
	uint32_t type;
	uint16_t size;
	int err = 0;

	memset(out, 0, sizeof(*out));
	if (attr->num_of_specs > FLOW_SPECS)
		return refuse(EINVAL,
			      "ibv_create_flow: num_of_specs %u, a rule has at most %d; use fewer",
			      attr->num_of_specs, FLOW_SPECS);
	for (unsigned int i = 0; i < attr->num_of_specs && !err; i++, p += size) {
		memcpy(&type, p, sizeof(type));
		memcpy(&size, p + sizeof(type), sizeof(size));
		err = read_spec(p, type, size, out);
	}
	return err;
}

/* --- a frame's headers in the form of the filters --- */

static bool eth_of(const struct frame_layer *l, struct ibv_flow_eth_filter *v)
{
	if (!l->eth)
		return false;
	memcpy(v->dst_mac, l->eth, 6);
	memcpy(v->src_mac, l->eth + 6, 6);
	v->ether_type = htobe16(l->ether_type);
	if (l->vlan)
		memcpy(&v->vlan_tag, l->vlan, 2);
	return true;
}

static bool ip4_of(const struct frame_layer *l, struct ibv_flow_ipv4_ext_filter *v)
{
	if (l->l3 != FRAME_IP4)
		return false;
	memcpy(&v->src_ip, l->ip + 12, 4);
	memcpy(&v->dst_ip, l->ip + 16, 4);
	v->proto = l->ip[9];
	v->tos = l->ip[1];
	v->ttl = l->ip[8];
	v->flags = (uint8_t)((l->ip[6] & 0x40 ? IP4_DONT_FRAG : 0) |
			     (l->ip[6] & 0x20 ? IP4_MORE_FRAG : 0));
	return true;
}

static bool ip6_of(const struct frame_layer *l, struct ibv_flow_ipv6_filter *v)
{
	if (l->l3 != FRAME_IP6)
		return false;
	memcpy(v->src_ip, l->ip + 8, 16);
	memcpy(v->dst_ip, l->ip + 24, 16);
	v->flow_label = htobe32(get_be32(l->ip) & 0xfffff);
	v->next_hdr = l->proto;
	v->traffic_class = (uint8_t)(get_be32(l->ip) >> 20);
	v->hop_limit = l->ip[7];
	return true;
}

static bool ports_of(const struct frame_layer *l, uint8_t l4, struct ibv_flow_tcp_udp_filter *v)
{
	if (l->l4 != l4)
		return false;
	memcpy(&v->src_port, l->l4_head, 2);
	memcpy(&v->dst_port, l->l4_head + 2, 2);
	return true;
}

static bool gre_of(const uint8_t *gre, struct ibv_flow_gre_filter *v)
{
	if (!gre)
		return false;
	memcpy(&v->c_ks_res0_ver, gre, 2);
	memcpy(&v->protocol, gre + 2, 2);
	if (gre[0] & 0x20)
		memcpy(&v->key, gre + (gre[0] & 0x80 ? 8 : 4), 4);
	return true;
}

static bool filter_of(const struct flow_match *m, const struct frame *f, union flow_filter *v)
{
	const struct frame_layer *l = m->inner ? &f->inner : &f->outer;

	switch (m->type) {
	case IBV_FLOW_SPEC_ETH:
		return eth_of(l, &v->eth) && (!m->tagged || l->vlan);
	case IBV_FLOW_SPEC_IPV4:
	case IBV_FLOW_SPEC_IPV4_EXT:
		return ip4_of(l, &v->ip4);
	case IBV_FLOW_SPEC_IPV6:
		return ip6_of(l, &v->ip6);
	case IBV_FLOW_SPEC_TCP:
		return ports_of(l, FRAME_TCP, &v->ports);
	case IBV_FLOW_SPEC_UDP:
		return ports_of(l, FRAME_UDP, &v->ports);
	case IBV_FLOW_SPEC_ESP:
		if (l->l4 == FRAME_ESP)
			memcpy(&v->esp, l->l4_head, sizeof(v->esp));
		return l->l4 == FRAME_ESP;
	case IBV_FLOW_SPEC_GRE:
		return gre_of(f->gre, &v->gre);
	case IBV_FLOW_SPEC_MPLS:
		if (f->mpls)
			memcpy(&v->mpls, f->mpls, sizeof(v->mpls));
		return f->mpls;
	default: /* IBV_FLOW_SPEC_VXLAN_TUNNEL */
		if (f->vxlan)
			v->tunnel.tunnel_id = htobe32(get_be24(f->vxlan + 4));
		return f->vxlan;
	}
}

bool flow_specs_match(const struct flow_match *m, unsigned int n, const struct frame *f)
{
	for (; n; n--, m++) {
		union flow_filter v = { { 0 } };

		if (!filter_of(m, f, &v))
			return false;
		for (unsigned int i = 0; i < m->size; i++)
			if ((v.bytes[i] & m->mask.bytes[i]) != m->val.bytes[i])
				return false;
	}
	return true;
}
