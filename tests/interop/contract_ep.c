// SPDX-License-Identifier: MIT
/* Endpoints: what rdma_create_ep(3) makes of each space, type and argument. */
#include "contract.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct rdma_addrinfo ep_info(const struct kind *k, union address *at, bool passive)
{
	struct rdma_addrinfo info = { .ai_flags = passive ? RAI_PASSIVE : 0,
				      .ai_family = at->sa.sa_family,
				      .ai_qp_type = (int)k->type,
				      .ai_port_space = (int)k->ps };

	*(passive ? &info.ai_src_addr : &info.ai_dst_addr) = &at->sa;
	*(passive ? &info.ai_src_len : &info.ai_dst_len) = k->v6 ? sizeof(at->in6) : sizeof(at->in);
	return info;
}

struct ibv_qp_init_attr ep_attr(void)
{
	return (struct ibv_qp_init_attr){ .cap = { 2, 3, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
}

/* --- one endpoint --- */

static struct ibv_pd *given; /* by the program */

static void say_cq(const char *what, const struct rdma_cm_id *id, const struct ibv_cq *cq,
		   const struct ibv_comp_channel *channel)
{
	if (!cq && !channel)
		return;
	printf(" %s%s%s%s", what, cq ? "" : " without CQ",
	       channel ? channel == (cq ? cq->channel : NULL) ? " with its channel"
							      : " with another"
		       : " without channel",
	       cq && cq->cq_context == id ? " of the id" : "");
}

static void say_queues(const struct rdma_cm_id *id)
{
	const struct ibv_qp *qp = id->qp;

	if (id->srq)
		printf("; SRQ");
	if (qp)
		printf("; QP of %s PD%s%s%s", qp->pd == id->pd ? "its" : "another",
		       !qp->srq		    ? ""
		       : qp->srq == id->srq ? ", its SRQ"
					    : ", an SRQ",
		       qp->qp_context == id ? ", context the id" : "",
		       qp->send_cq == id->send_cq && qp->recv_cq == id->recv_cq ? ""
										: ", other CQs");
	say_cq("; sends", id, id->send_cq, id->send_cq_channel);
	say_cq("; receives", id, id->recv_cq, id->recv_cq_channel);
}

void say_ep(struct crew *c, const struct rdma_cm_id *id)
{
	const struct rdma_route *r = &id->route;

	printf("%s, %s PD, ps=%x type=%d, %s%s%s%s", id->verbs ? "verbs" : "no verbs",
	       !id->pd		 ? "no"
	       : id->pd == given ? "the given"
				 : "a",
	       (unsigned int)id->ps, (int)id->qp_type, r->addr.src_addr.sa_family ? "from, " : "",
	       r->addr.dst_addr.sa_family ? "to, " : "", r->num_paths ? "a path, " : "",
	       id->context == c ? "context kept"
	       : id->context	? "another context"
				: "no context");
	say_queues(id);
	say_qp(c, id, "; QP");
	if (id->event) {
		c->where = "kept";
		say_event(c, id->event);
	}
}

static void say_attr_back(const struct ibv_qp_init_attr *a, const struct rdma_cm_id *id)
{
	printf("; attr type=%d %s CQs%s%s", (int)a->qp_type,
	       !a->send_cq && !a->recv_cq				? "no"
	       : a->send_cq == id->send_cq && a->recv_cq == id->recv_cq ? "the id's"
									: "other",
	       a->srq ? " SRQ" : "",
	       a->cap.max_send_wr >= 2 && a->cap.max_recv_wr >= 3 ? "" : " small");
}

/* Which arguments there are. */
enum { WITH_ATTR = 1, WITH_PD = 2 };

static void one(const struct kind *k, bool passive, int with)
{
	union address at = own_address(k->v6, passive ? 0 : htons(9));
	struct crew c = { .kind = k, .out = stdout };
	struct rdma_addrinfo info = ep_info(k, &at, passive);
	struct ibv_qp_init_attr attr = ep_attr();
	struct rdma_cm_id *id = NULL;

	printf("endpoints %s space %x type %d%s%s%s: ", passive ? "passive" : "active",
	       (unsigned int)k->ps, (int)k->type, k->v6 ? " v6" : "",
	       with & WITH_ATTR ? " attr" : "", with & WITH_PD ? " PD" : "");
	errno = 0;
	if (rdma_create_ep(&id, &info, with & WITH_PD ? given : NULL,
			   with & WITH_ATTR ? &attr : NULL)) {
		printf("%s%s\n", errno_name(errno), id ? ", an id" : "");
		return;
	}
	c.id[ACTIVE] = id;
	say_ep(&c, id);
	if (with & WITH_ATTR)
		say_attr_back(&attr, id);
	if (passive) {
		errno = 0;
		printf(" | listen %s", rdma_listen(id, 1) ? errno_name(errno) : "0");
	}
	putchar('\n');
	rdma_destroy_ep(id);
}

static void each(void)
{
	static const int spaces[] = { 0, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB, 77 };
	static const int types[] = { 0,		 IBV_QPT_RC,	   IBV_QPT_UC,
				     IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV,
				     77 };

	for (size_t s = 0; s < sizeof(spaces) / sizeof(spaces[0]); s++)
		for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
			for (int passive = 0; passive < 2; passive++) {
				struct kind k = { .ps = (enum rdma_port_space)spaces[s],
						  .type = (enum ibv_qp_type)types[t] };
				bool can_qp = k.type != IBV_QPT_XRC_SEND && /* rxe cannot */
					      k.type != IBV_QPT_XRC_RECV;

				for (int with = 0; with < (can_qp ? 4 : 1); with++)
					one(&k, passive, with);
				k.v6 = true;
				one(&k, passive, 0);
			}
}

/* --- other arguments --- */

static const struct kind tcp = { .name = "TCP", .ps = RDMA_PS_TCP, .type = IBV_QPT_RC };

static void tell(const char *what, struct rdma_addrinfo *info, struct ibv_qp_init_attr *attr)
{
	struct crew c = { .kind = &tcp, .out = stdout };
	struct rdma_cm_id *id = NULL;

	printf("endpoints %s: ", what);
	fflush(stdout);
	errno = 0;
	if (rdma_create_ep(&id, info, NULL, attr)) {
		printf("%s%s\n", errno_name(errno), id ? ", an id" : "");
		return;
	}
	c.id[ACTIVE] = id;
	say_ep(&c, id);
	putchar('\n');
	rdma_destroy_ep(id);
}

static void addresses(void)
{
	union address at = own_address(false, htons(9)), from = own_address(false, 0), v6;
	struct rdma_addrinfo info = ep_info(&tcp, &at, false);

	info.ai_src_addr = &from.sa;
	info.ai_src_len = sizeof(from.in);
	tell("active with source", &info, NULL);
	inet_pton(AF_INET, "203.0.113.5", &from.in.sin_addr);
	tell("active with foreign source", &info, NULL);
	info.ai_src_len = 0;
	tell("active with foreign source of no length", &info, NULL);
	info.ai_src_len = sizeof(from.in) - 1;
	tell("active with source too short", &info, NULL);
	v6 = own_address(true, 0);
	info.ai_src_addr = &v6.sa;
	info.ai_src_len = sizeof(v6.in6);
	tell("active with source of the other family", &info, NULL);
	info = ep_info(&tcp, &at, false);
	info.ai_dst_len = 0;
	tell("active to an address of no length", &info, NULL);
	info.ai_dst_len = sizeof(at.in6);
	tell("active to an address too long", &info, NULL);
	info = ep_info(&tcp, &at, false);
	info.ai_family = AF_INET6;
	tell("active of another family than its address", &info, NULL);
	info.ai_family = AF_INET;
	info.ai_flags = 1 << 12;
	tell("active with unknown flags", &info, NULL);
	inet_pton(AF_INET, "10.9.0.77", &at.in.sin_addr);
	tell("active to a neighbour that is not there", &info, NULL);
}

static void passive_addresses(void)
{
	union address at = own_address(false, 0), v6 = own_address(true, 0);
	struct rdma_addrinfo info = ep_info(&tcp, &at, true);

	info.ai_src_len = 0;
	tell("passive at an address of no length", &info, NULL);
	info.ai_src_len = sizeof(at.in6);
	tell("passive at an address too long", &info, NULL);
	info = ep_info(&tcp, &at, true);
	info.ai_dst_addr = &v6.sa;
	info.ai_dst_len = sizeof(v6.in6);
	tell("passive with a destination", &info, NULL);
	info = ep_info(&tcp, &at, true);
	inet_pton(AF_INET, "203.0.113.5", &at.in.sin_addr);
	tell("passive at a foreign address", &info, NULL);
	at.in.sin_addr.s_addr = 0;
	tell("passive at any address", &info, NULL);
	at.sa.sa_family = AF_UNIX;
	tell("passive at a local socket's address", &info, NULL);
}

static void attributes(void)
{
	union address at = own_address(false, htons(9));
	struct rdma_addrinfo info = ep_info(&tcp, &at, false);
	struct ibv_qp_init_attr attr = ep_attr();

	attr.qp_type = IBV_QPT_UD;
	tell("active with attributes of another type", &info, &attr);
	attr = ep_attr();
	attr.cap.max_send_sge = 1 << 20;
	tell("active with too many SGEs", &info, &attr);
	attr = ep_attr();
	attr.cap.max_recv_wr = 1 << 30;
	tell("active with too many receives", &info, &attr);
	attr = ep_attr();
	attr.send_cq = attr.recv_cq = ibv_create_cq(given->context, 4, NULL, NULL, 0);
	tell("active with CQs", &info, &attr);
	attr.recv_cq = NULL;
	tell("active with one CQ", &info, &attr);
	must(!ibv_destroy_cq(attr.send_cq), "ibv_destroy_cq");
}

static void routes(void)
{
	union address at = own_address(false, htons(9));
	struct rdma_addrinfo info = ep_info(&tcp, &at, false);
	char path[2 * sizeof(struct ibv_path_data)] = { 0 };
	char data[300] = "some";

	info.ai_route = path;
	info.ai_route_len = 7;
	tell("active with a route too short", &info, NULL);
	info.ai_route_len = sizeof(path);
	tell("active with a route of zeros", &info, NULL);
	info.ai_route = NULL;
	info.ai_route_len = 0;
	info.ai_connect = data;
	info.ai_connect_len = 4;
	tell("active with data", &info, NULL);
	info.ai_connect_len = sizeof(data);
	tell("active with too much data", &info, NULL);
}

void say_endpoints(void)
{
	struct rdma_event_channel *ch = make_channel();
	union address at = own_address(false, 0);
	struct rdma_cm_id *id;

	must(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(!rdma_bind_addr(id, &at.sa), "rdma_bind_addr");
	given = ibv_alloc_pd(id->verbs);
	must(given, "ibv_alloc_pd");
	each();
	addresses();
	passive_addresses();
	attributes();
	routes();
	must(!ibv_dealloc_pd(given), "ibv_dealloc_pd");
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
}
