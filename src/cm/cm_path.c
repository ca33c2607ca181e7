// SPDX-License-Identifier: MIT
#include "cm/cm_path.h"
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include "net/gid.h"
#include "obs/explain.h"

enum {
	WANTED = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
	PKEY = 0xffff, /* the only one of a RoCE port */
	VALUE = 0x3f, /* of a byte whose upper bits say how to compare it */
	FLOW_MASK = 0xfffff,
	SL_MASK = 0xf,
	CODE_MAX = 31, /* of a time */
};

/* The program's array may stand at any address. */
static int find(const void *val, size_t len, struct ibv_path_record *out)
{
	struct ibv_path_data d;

	if (len % sizeof(d))
		return refuse(EINVAL,
			      "rdma_set_option: %zu B for RDMA_OPTION_IB_PATH; give an array of "
			      "struct ibv_path_data, of %zu B each",
			      len, sizeof(d));
	for (size_t at = 0; at < len; at += sizeof(d)) {
		memcpy(&d, (const char *)val + at, sizeof(d));
		if (d.flags != WANTED)
			continue;
		*out = d.path;
		return 0;
	}
	return refuse(EINVAL,
		      "rdma_set_option: none of %zu paths has the flags 0x%x (GMP, PRIMARY, "
		      "BIDIRECTIONAL); set exactly these",
		      len / sizeof(d), WANTED);
}

static int check_end(const char *which, const union ibv_gid *given, const union ibv_gid *own)
{
	char text[INET6_ADDRSTRLEN], want[INET6_ADDRSTRLEN];

	if (!memcmp(given, own, sizeof(*own)))
		return 0;
	gid_text(given, text, sizeof(text));
	gid_text(own, want, sizeof(want));
	return refuse(EINVAL,
		      "rdma_set_option: the path's %s is that of %s, the id's is that of %s; give "
		      "the id's (route.addr.addr.ibaddr)",
		      which, text, want);
}

static int check(const struct cm_id *id, const struct ibv_path_record *p)
{
	unsigned int mtu = p->mtu & VALUE;
	int err = check_end("sgid", &p->sgid, &id->way.sgid);

	err = err ? err : check_end("dgid", &p->dgid, &id->way.dgid);
	if (err)
		return err;
	if (be16toh(p->pkey) != PKEY)
		return refuse(
			EINVAL,
			"rdma_set_option: the path's pkey is 0x%x; a RoCE port has 0x%x alone",
			be16toh(p->pkey), PKEY);
	if (mtu < IBV_MTU_256 || mtu > id->way.mtu)
		return refuse(
			EINVAL,
			"rdma_set_option: the path's mtu is %u; give one from %d to the port's "
			"active_mtu, %u",
			mtu, IBV_MTU_256, id->way.mtu);
	return 0;
}

int cm_path_take(struct cm_id *id, const void *val, size_t len)
{
	struct ibv_path_record p;
	uint32_t flow;
	uint8_t life;
	int err = find(val, len, &p);

	if (!err && id->phase != PHASE_ADDR)
		err = refuse(
			EINVAL,
			"rdma_set_option: RDMA_OPTION_IB_PATH needs a resolved address, and no "
			"route yet; call rdma_resolve_addr and wait for ADDR_RESOLVED");
	err = err ? err : check(id, &p);
	if (err)
		return err;
	flow = be32toh(p.flowlabel_hoplimit);
	life = p.packetlifetime & VALUE;
	id->way.mtu = p.mtu & VALUE;
	id->way.rate = p.rate & VALUE;
	id->way.sl = be16toh(p.qosclass_sl) & SL_MASK;
	id->way.tclass = p.tclass;
	id->way.flow_label = flow >> 8 & FLOW_MASK;
	id->way.hop_limit = (uint8_t)flow;
	id->way.ack_timeout = life < CODE_MAX ? life + 1 : CODE_MAX;
	return 0;
}
