// SPDX-License-Identifier: MIT
#include "engine/path.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hca/ah.h"
#include "link/fault.h"
#include "obs/explain.h"
#include "wire/grh.h"

#define MCAST_QPN	  0xffffff
#define UDP_BTH_DETH_ICRC (8 + 12 + 8 + 4)

static struct device *device_of(struct eqp *e)
{
	return container_of(e->q.qp.ctx->hca, struct device, hca);
}

/* SOFTHCA_FAULT wraps every path. */
static int with_faults(struct dest *d, struct dest **out)
{
	const char *text = getenv("SOFTHCA_FAULT");
	struct fault_config cfg;
	int err;

	*out = d;
	if (!text)
		return 0;
	err = fault_parse(text, &cfg);
	if (!err)
		err = fault_wrap(d, &cfg, out);
	if (err)
		d->ops->put(d);
	return err;
}

int path_find(struct eqp *e, const union ibv_gid *gid, uint32_t qpn, struct dest **out)
{
	char text[INET6_ADDRSTRLEN];
	struct dest *d;
	int err;

	if (!gid_is_local(device_of(e)->gids, gid)) {
		inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
		return refuse(EHOSTUNREACH,
			      "QP 0x%x: %s is not an address of this host, and there is no "
			      "link to the network; connect to an address of this host",
			      e->q.qp.qpn, text);
	}
	err = host_dest(e->node->host, qpn, &d);
	return err ? err : with_faults(d, out);
}

int path_resolve(struct tqp *q, const struct av *av, uint32_t dqpn, struct dest **out)
{
	struct eqp *e = to_eqp(q);

	if (dqpn == MCAST_QPN)
		return host_dest_all(e->node->host, out);
	return path_find(e, &av->dgid, dqpn, out);
}

/* seg.l3, as UCX reads it from wc.sl: 2 IPv4, 1 IPv6, 0 RoCEv1. */
enum { L3_GRH, L3_IPV6, L3_IPV4 };

void path_make_grh(void *arg, const struct seg *s, uint8_t grh[40], uint8_t *l3)
{
	struct eqp *e = node_qp(arg, s->sqpn);
	struct gid_entry from;
	struct grh g = { .payload_len = s->len + UDP_BTH_DETH_ICRC };

	if (!e || gid_table_get(device_of(e)->gids, s->av->sgid_index, &from))
		return;
	memcpy(g.sgid, from.gid.raw, sizeof(g.sgid));
	memcpy(g.dgid, s->av->dgid.raw, sizeof(g.dgid));
	g.tclass = s->av->traffic_class;
	g.hop_limit = s->av->hop_limit;
	g.flow_label = s->av->flow_label;
	g.next_hdr = from.type == GID_V2 ? GRH_NEXT_UDP : GRH_NEXT_BTH;
	grh_build(&g, grh);
	*l3 = L3_GRH;
	if (from.type == GID_V2)
		*l3 = grh_version(grh) == GRH_IPV4 ? L3_IPV4 : L3_IPV6;
}
